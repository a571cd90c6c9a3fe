"""How long clients wait: from the moment their wait was seen until they are ready."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from edgewise.api.sessions import ClientStatus
from edgewise.sessions.digest import NOT_READY, RECOVERING
from edgewise.sessions.metrics import SessionMetrics

# Whoever waits while so many others do is not timed.
MOST_TIMED = 50_000

Change = tuple[str, ClientStatus | None, ClientStatus | None]


class Stopwatch:
    def __init__(
        self, metrics: SessionMetrics, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._metrics = metrics
        self._monotonic = monotonic
        self._waiting: OrderedDict[tuple[str, str], tuple[float, bool]] = OrderedDict()

    def note(self, session_uid: str, changes: Iterable[Change], began: float) -> None:
        """`began` is when the reconcile that brought the changes did."""
        for client, before, after in changes:
            key = (session_uid, client)
            moved = before is not None and before.ready and after is not None
            if after is None:
                self._waiting.pop(key, None)
            elif after.ready:
                if before is not None and before.ready and before.pods == after.pods:
                    continue  # it was, and is, whatever else has changed
                since, recovering = self._waiting.pop(key, (began, moved))
                histogram = (
                    self._metrics.recovery_seconds if recovering else self._metrics.ready_seconds
                )
                histogram.observe(self._monotonic() - since)
            elif key not in self._waiting and len(self._waiting) < MOST_TIMED:
                self._waiting[key] = (began, after.phase in (RECOVERING, NOT_READY))
