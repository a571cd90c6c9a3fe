"""How many clients each cluster has, and whether a seat that was just taken was there to take.

Several replicas hand out seats at the same time, and nobody locks anything. Instead, a seat
is taken first (one write in the hub) and then looked at: the hub shows every replica all
writes in the same order, so at the moment when our own write comes by, our cache holds
exactly what was taken before it. If that was the cluster's whole capacity already, we were
too late and give the seat back. Of two who race for the last seat exactly one finds it free.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator

import msgspec

from edgewise.api.global_sessions import BindingState, ClientBinding
from edgewise.runtime.caching.cache import Cache, number

# If our write has not come by for so long, the hub has trouble of its own.
LONGEST_WAIT_SECONDS = 5.0


class Before(msgspec.Struct, frozen=True):
    """How many others were there when a client came."""

    in_cluster: int
    in_session: int


class Ledger:
    def __init__(self, bindings: Cache[ClientBinding]) -> None:
        self._bindings = bindings
        self._seated: Counter[str] = Counter()
        self._in_session: Counter[str] = Counter()
        self._sessions: dict[str, Counter[str]] = {}
        self._queued: dict[str, ClientBinding] = {}
        self.queue_version = 0  # another one whenever the queue has changed
        self._claims: Counter[str] = Counter()
        self._claims_of: dict[str, Counter[str]] = {}
        # For each who sits: where, and who was there before (None: cannot be told).
        self._before: dict[str, tuple[str, Before | None]] = {}
        self._waiting: dict[str, list[tuple[int, asyncio.Future[None]]]] = {}
        bindings.subscribe(self._changed)

    def seated(self, cluster: str) -> int:
        """Those who sit there, with those whom this replica is just seating."""
        return self._seated[cluster] + self._claims[cluster]

    def in_session(self, session_uid: str) -> int:
        return self._in_session[session_uid]

    def sessions_in(self, cluster: str) -> Counter[str]:
        """How many of each session sit there, with those whom this replica is just seating."""
        return self._sessions.get(cluster, Counter()) + self._claims_of.get(cluster, Counter())

    def queued(self) -> list[ClientBinding]:
        return list(self._queued.values())

    @contextlib.contextmanager
    def claiming(self, cluster: str, session: str) -> Iterator[None]:
        """Count a seat as taken while the write that takes it is on its way."""
        self._claims[cluster] += 1
        _add_in(self._claims_of, cluster, session, +1)
        try:
            yield
        finally:
            _add(self._claims, cluster, -1)
            _add_in(self._claims_of, cluster, session, -1)

    async def before(self, binding: ClientBinding) -> Before | None:
        """Who had a seat there when `binding` got its own.

        None if that cannot be told: the hub did not show us in time, or not in order, or
        somebody else has moved it since.
        """
        name, revision = binding.metadata.name, number(binding.metadata.resource_version)
        if self._bindings.revision < revision:
            seen = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(name, []).append((revision, seen))
            try:
                async with asyncio.timeout(LONGEST_WAIT_SECONDS):
                    await seen
            except TimeoutError:
                return None
            finally:
                self._waiting[name].remove((revision, seen))
                if not self._waiting[name]:
                    del self._waiting[name]
        cluster, before = self._before.get(name, ("", None))
        return before if cluster == binding.spec.location else None

    def _changed(self, old: ClientBinding | None, new: ClientBinding | None, bulk: bool) -> None:
        if old is not None:
            self._count(old, -1)
        if new is None:
            if old is not None:
                self._before.pop(old.metadata.name, None)
                self._tell(old.metadata.name, self._bindings.revision)
            return
        name, cluster = new.metadata.name, _seat(new)
        if cluster and (old is None or _seat(old) != cluster):
            # A complete list says who sits there, but not who came first.
            before = Before(self._seated[cluster], self._in_session[new.spec.session_uid])
            self._before[name] = cluster, None if bulk else before
        self._count(new, +1)
        self._tell(name, number(new.metadata.resource_version))

    def _tell(self, name: str, revision: int) -> None:
        for wanted, seen in self._waiting.get(name, ()) if self._waiting else ():
            if revision >= wanted and not seen.done():
                seen.set_result(None)

    def _count(self, binding: ClientBinding, by: int) -> None:
        cluster, name = _seat(binding), binding.metadata.name
        _add(self._in_session, binding.spec.session_uid, by)
        if cluster:
            _add(self._seated, cluster, by)
            _add_in(self._sessions, cluster, binding.spec.session, by)
            return
        self.queue_version += 1
        if by > 0:
            self._queued[name] = binding
        else:
            self._queued.pop(name, None)


def _add(counts: Counter[str], what: str, by: int) -> None:
    counts[what] += by
    if not counts[what]:
        del counts[what]


def _add_in(counts: dict[str, Counter[str]], cluster: str, what: str, by: int) -> None:
    _add(counts.setdefault(cluster, Counter()), what, by)
    if not counts[cluster]:
        del counts[cluster]


def _seat(binding: ClientBinding) -> str:
    return "" if binding.spec.state is BindingState.QUEUED else binding.spec.location
