"""The directory in which an agent and its Envoy meet, and the right to be the one in it."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from edgewise.agents.gateway.settings import SettingsError


@contextlib.contextmanager
def sole(run_dir: Path, role: str) -> Iterator[None]:
    """Hold the place of `role` in the directory; two in one would take turns in
    stealing each other's sockets."""
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (run_dir / f"{role}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                f"another gateway runs in {run_dir}; end it, or choose another run directory"
            ) from None
        yield
