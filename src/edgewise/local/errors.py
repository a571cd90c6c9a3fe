"""What can go wrong with a local cluster; every message says what to do."""

from __future__ import annotations

from edgewise.errors import ReadableError


class LocalError(ReadableError):
    """The base of everything that `edgewise.local` raises on purpose."""


class NoSuchCluster(LocalError):
    def __init__(self, name: str, known: list[str]) -> None:
        have = f"there are: {', '.join(known)}" if known else "there is none"
        super().__init__(
            f"no local cluster is called {name!r} ({have}); "
            f"start it with `edgewise local up --name {name}`"
        )
        self.name = name


class BadSpec(LocalError):
    """What was asked for cannot be built, whatever the machine."""


class StartFailed(LocalError):
    """The cluster did not come up."""
