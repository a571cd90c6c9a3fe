"""How long clients wait: from the moment their wait was seen until they are ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from edgewise.api.sessions import ClientPhase, ClientStatus
from edgewise.kube.objects import Key
from edgewise.sessions.digest import AWAY
from edgewise.sessions.metrics import SessionMetrics

# Whoever waits while so many others do is not timed.
MOST_TIMED = 50_000

Change = tuple[str, ClientStatus | None, ClientStatus | None]


class _Waiting(msgspec.Struct):
    """Those who wait in one session: since when, and whether they had a pod before."""

    uid: str
    clients: dict[str, tuple[float, bool]] = {}


class Stopwatch:
    def __init__(
        self, metrics: SessionMetrics, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._metrics = metrics
        self._monotonic = monotonic
        self._waiting: dict[Key, _Waiting] = {}
        self._timed = 0

    def __len__(self) -> int:
        """How many clients are timed."""
        return self._timed

    def note(self, session: Key, uid: str, changes: Iterable[Change], began: float) -> None:
        """`began` is when the reconcile that brought the changes did."""
        waiting = self._waiting.get(session)
        if waiting is not None and waiting.uid != uid:
            self.forget(session)
            waiting = None
        if waiting is None:
            waiting = self._waiting[session] = _Waiting(uid)
        before_that = len(waiting.clients)
        for client, before, after in changes:
            self._note(waiting, client, before, after, began)
            self._timed += len(waiting.clients) - before_that
            before_that = len(waiting.clients)
        if not waiting.clients:
            del self._waiting[session]

    def forget(self, session: Key) -> None:
        """The session is gone, and with it those who waited in it."""
        waiting = self._waiting.pop(session, None)
        if waiting is not None:
            self._timed -= len(waiting.clients)

    def _note(
        self,
        waiting: _Waiting,
        client: str,
        before: ClientStatus | None,
        after: ClientStatus | None,
        began: float,
    ) -> None:
        timed = waiting.clients.get(client)
        if after is not None and _waits(after):
            if timed is None and self._timed < MOST_TIMED:
                waiting.clients[client] = began, after.phase != ClientPhase.STARTING
            return
        waiting.clients.pop(client, None)
        if after is None or not after.ready:
            return
        if before is not None and before.ready and before.pods == after.pods:
            return  # it was, and is, whatever else has changed
        if timed is None:
            if before is not None and _waits(before):
                return  # it has waited, but since when was not noted
            timed = began, before is not None and before.ready
        since, recovering = timed
        histogram = self._metrics.recovery_seconds if recovering else self._metrics.ready_seconds
        histogram.observe(self._monotonic() - since)


def _waits(client: ClientStatus) -> bool:
    """One that is away, or was not let in, waits for nothing."""
    return not client.ready and client.phase not in AWAY
