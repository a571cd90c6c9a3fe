"""Counts game servers from the shared cache: how many there are, how long they lived, what
they waited for when they went."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from edgewise.api.game_servers import ShutdownReason
from edgewise.api.games import PortPolicy, Server, ServerState, ShutdownAsked
from edgewise.gameservers.metrics import GameMetrics
from edgewise.runtime.caching.cache import Cache
from edgewise.workloads.deadlines import moment

NOT_ASKED, OTHER = "NotAsked", "Other"


class ServerCounts:
    """Follows the servers of all namespaces; costs no write and no read."""

    def __init__(self, metrics: GameMetrics, clock: Callable[[], float] = time.time) -> None:
        self._metrics = metrics
        self._clock = clock
        self._states: Counter[str] = Counter()
        self._ports = 0
        metrics.follow(lambda: self._states, lambda: float(self._ports))

    def follow(self, servers: Cache[Server]) -> None:
        servers.subscribe(self._changed)

    def _changed(self, old: Server | None, new: Server | None, _: bool) -> None:
        if old is not None:
            self._states[_state(old)] -= 1
            self._ports -= ports_of(old)
        if new is not None:
            self._states[_state(new)] += 1
            self._ports += ports_of(new)
        elif old is not None:
            self._ended(old)

    def _ended(self, server: Server) -> None:
        now = self._clock()
        created = moment(server.metadata.creation_timestamp)
        if created is not None:
            self._metrics.uptime.observe(max(0.0, now - created))
        asked = server.status.shutdown
        self._metrics.drains.labels(_why(asked)).inc()
        since = moment(asked.since) if asked is not None else None
        if since is not None:
            self._metrics.drain_seconds.observe(max(0.0, now - since))


def ports_of(server: Server) -> int:
    """Ports of its node that it has."""
    of_node = {each.name for each in server.spec.ports if each.policy is not PortPolicy.NONE}
    return sum(each.name in of_node for each in server.status.ports)


def _why(asked: ShutdownAsked | None) -> str:
    """So do reasons that nobody gives."""
    if asked is None or not asked.why:
        return NOT_ASKED
    return asked.why if asked.why in set(ShutdownReason) else OTHER


def _state(server: Server) -> str:
    """A word that this operator does not know must not make a series of its own."""
    state = server.status.state or ServerState.PENDING
    return state if state in set(ServerState) else ServerState.PENDING
