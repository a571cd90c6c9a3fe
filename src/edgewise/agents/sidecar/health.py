"""Whether the game says often enough that it is well."""

from __future__ import annotations

import contextlib
import time
from typing import NamedTuple

from edgewise.agents.sidecar.said import SaidBook

LOOK_SECONDS = 0.5


class Health(NamedTuple):
    period: float = 5.0
    failures: int = 3
    delay: float = 5.0


def missed(now: float, begun: float, well_at: float | None, health: Health | None) -> bool:
    """Without `health` a game is watched from its first word on, with the usual times."""
    rule = health or Health()
    if well_at is None:
        if health is None:
            return False
        well_at = begun + rule.delay
    return now - well_at > rule.period * rule.failures


def watch_health(book: SaidBook, health: Health | None) -> None:
    begun = time.monotonic()
    if health is None and book.get("healthy") is not None:
        book.well_at = begun  # an earlier sidecar has heard of it
    while True:
        time.sleep(LOOK_SECONDS)
        if missed(time.monotonic(), begun, book.well_at, health):
            # A volume that is full now may have room at the next look.
            with contextlib.suppress(OSError):
                book.say(healthy=False)
