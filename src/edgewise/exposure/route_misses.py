"""Routes that gateways have not acknowledged: each is counted once, however often it is tried."""

from __future__ import annotations

from collections.abc import Set

from edgewise.exposure.route import Owner


class RouteMisses:
    def __init__(self) -> None:
        self._missing: dict[Owner, frozenset[str]] = {}

    def note(self, owner: Owner, asked: Set[str], acked: Set[str]) -> int:
        """How many of the routes of an owner are missing now that were not before."""
        missing = frozenset(asked - acked)
        before = self._missing.pop(owner, frozenset())
        if missing:
            self._missing[owner] = missing
        return len(missing - before)

    def forget(self, owner: Owner) -> None:
        self._missing.pop(owner, None)

    def __len__(self) -> int:
        return len(self._missing)
