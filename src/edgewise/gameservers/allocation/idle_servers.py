"""The servers that could be given away now: an index over two caches, and over what is under way.

A server is idle if it is Ready, nobody wants it to go, and no Allocation has its name. A server
that this replica is taking at this moment is idle for nobody else here.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Set

from edgewise.api.durations import seconds_of
from edgewise.api.games import Allocation, Operation, Server, ServerState
from edgewise.gameservers import names
from edgewise.gameservers.allocation.choice import Candidate, Nodes, choose
from edgewise.gameservers.allocation.request import Fits
from edgewise.gameservers.retirement import hold_of
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache

# A server that another replica was faster to take shows so in our cache within milliseconds.
LOST_SECONDS = 2.0

# However long a game may take to acknowledge: a caller waits for it, with an open connection.
LONGEST_ACKNOWLEDGE = 300.0

# (label, value): all servers of a fleet, or of a GameType.
Pool = tuple[str, str]


class IdleServers:
    def __init__(
        self,
        servers: Cache[Server],
        allocations: Cache[Allocation],
        *,
        salt: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._servers = servers
        self._allocations = allocations
        self._salt = salt
        self._monotonic = monotonic
        self._idle: dict[Pool, dict[str, dict[str, Candidate]]] = {}
        self._pools: dict[Key, tuple[tuple[Pool, ...], Candidate]] = {}
        self._node_of_taken: dict[Key, str] = {}
        self._allocated: Counter[str] = Counter()
        self._claimed: set[str] = set()
        self._lost: dict[str, float] = {}
        servers.subscribe(self._server_changed)
        allocations.subscribe(self._allocation_changed)

    def choose(
        self, pool: Pool, fits: Fits, *, packed: bool, without: Set[str] = frozenset()
    ) -> Candidate | None:
        nodes = self._idle.get(pool)
        if not nodes:
            return None
        self._forget_lost()
        return choose(
            Nodes(nodes, self._allocated),
            fits,
            packed=packed,
            salt=self._salt,
            without=self._claimed | self._lost.keys() | without,
        )

    def count(self, pool: Pool) -> int:
        return sum(len(names) for names in self._idle.get(pool, {}).values())

    @contextlib.contextmanager
    def claiming(self, name: str) -> Iterator[None]:
        """Nobody else of this replica tries to take it meanwhile."""
        self._claimed.add(name)
        try:
            yield
        finally:
            self._claimed.discard(name)

    def lose(self, name: str) -> None:
        """Another one has it, which the cache does not show yet."""
        self._lost[name] = self._monotonic()

    def _forget_lost(self) -> None:
        oldest = self._monotonic() - LOST_SECONDS
        while self._lost:
            name, when = next(iter(self._lost.items()))
            if when > oldest:
                return
            del self._lost[name]

    # What changes ------------------------------------------------------------------------

    def _server_changed(self, old: Server | None, new: Server | None, _: bool) -> None:
        if (changed := new or old) is not None:
            self._look_at(changed.key)

    def _allocation_changed(self, old: Allocation | None, new: Allocation | None, _: bool) -> None:
        if (changed := new or old) is not None:
            self._lost.pop(changed.metadata.name, None)
            self._look_at(changed.key)
            for name in changed.spec.retires:
                self._look_at(Key(changed.metadata.namespace, name))

    def _look_at(self, key: Key) -> None:
        server, allocation = self._servers.get(key), self._allocations.get(key)
        self._take_out(key)
        if server is None:
            return
        if allocation is None:
            if is_idle(server) and not hold_of(server, self._allocations).retired:
                self._put_in(key, server)
        elif not allocation.spec.retired:
            self._node_of_taken[key] = server.status.node
            self._allocated[server.status.node] += 1

    def _put_in(self, key: Key, server: Server) -> None:
        labels = server.metadata.labels
        pools = tuple(
            (label, labels[label]) for label in (names.FLEET, names.TYPE) if labels.get(label)
        )
        candidate = candidate_of(server)
        self._pools[key] = pools, candidate
        for pool in pools:
            nodes = self._idle.setdefault(pool, {})
            nodes.setdefault(candidate.node, {})[candidate.name] = candidate

    def _take_out(self, key: Key) -> None:
        pools, candidate = self._pools.pop(key, ((), None))
        for pool in pools:
            if candidate is None:
                continue
            nodes = self._idle[pool]
            del nodes[candidate.node][candidate.name]
            if not nodes[candidate.node]:
                del nodes[candidate.node]
            if not nodes:
                del self._idle[pool]
        node = self._node_of_taken.pop(key, None)
        if node is not None:
            self._allocated[node] -= 1
            if not self._allocated[node]:
                del self._allocated[node]


def is_idle(server: Server) -> bool:
    """Ready for whoever comes, as far as the server itself says."""
    return (
        server.status.state == ServerState.READY
        and not server.metadata.deleting
        and server.spec.operation == Operation.NONE
        and server.status.shutdown is None
    )


def candidate_of(server: Server) -> Candidate:
    return Candidate(
        name=server.metadata.name,
        uid=server.metadata.uid,
        node=server.status.node,
        version=server.status.version,
        labels=server.metadata.labels,
        fleet=server.metadata.labels.get(names.FLEET, ""),
        acknowledge=min(LONGEST_ACKNOWLEDGE, seconds_of(server.spec.acknowledge)),
    )
