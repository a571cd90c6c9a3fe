"""The Allocations as this replica has seen them, by match, and waiting for what comes next.

The cache shows one state of the history of all Allocations, and never goes back: nothing is put
into it ahead of the stream. So whatever was made before something that it shows is in it too, or
is gone again.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterator

from edgewise.api.games import Allocation, Server
from edgewise.gameservers.allocation.revisions import (
    MatchKey,
    Wished,
    by_game,
    by_line,
    by_match,
    first_of,
    in_line,
    match_of,
    waits,
    wished,
)
from edgewise.gameservers.retirement import overtaken
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache, number

# A list may show a state without telling of each change: look again after so long.
LOOK_AGAIN_SECONDS = 0.25
# The topic of those who want to hear of every change.
ANYTHING = "anything"
_NOBODY: Counter[Wished] = Counter()


class Matches:
    def __init__(
        self, servers: Cache[Server], allocations: Cache[Allocation], namespace: str
    ) -> None:
        self._servers = servers
        self._cache = allocations
        self._namespace = namespace
        self._lines: dict[tuple[str, str], Counter[Wished]] = {}
        self._tickets = itertools.count()
        self._unseen: list[tuple[int, int, asyncio.Future[None]]] = []
        self._watched: dict[Hashable, set[asyncio.Event]] = {}
        allocations.subscribe(self._allocation_changed)
        servers.subscribe(self._server_changed)

    # What is known ----------------------------------------------------------------------

    def of(self, key: MatchKey) -> list[Allocation]:
        return self._counting(self._cache.by(by_match, key))

    def first(self, key: MatchKey) -> Allocation | None:
        """The one that counts; it may be over by now."""
        return first_of(self.of(key))

    def waiting(self, key: MatchKey) -> Allocation | None:
        return next(iter(in_line(self.of(key))), None)

    def line(self, game: str) -> list[Allocation]:
        """All that wait for a server of a game, who came first in front.

        A match that has its server is out, though its place may be there for a moment.
        """
        return [each for each in in_line(self._cache.by(by_line, game)) if not self._served(each)]

    def waiting_of(self, game: str, holder: str) -> Counter[Wished]:
        """How many of a holder wait for a game, by what they wish for."""
        return self._lines.get((game, holder), _NOBODY)

    def _served(self, waiting: Allocation) -> bool:
        key = match_of(waiting)
        # Of no match there could be an answer: whatever was taken for it, nobody would find.
        return key is None or self.first(key) is not None

    def of_game(self, game: str) -> list[Allocation]:
        """All matches of a game."""
        return self._counting(self._cache.by(by_game, game))

    def named(self, game: str, match: str) -> list[Allocation]:
        """All matches of that name, whoever holds them."""
        return [each for each in self.of_game(game) if each.spec.match == match]

    def games_with_line(self) -> list[str]:
        return sorted({each.spec.game for each in self._cache.by(waits, "")})

    def place(self, waiting: Allocation) -> int:
        """1 is next; 0 if it does not wait any more."""
        uids = [each.metadata.uid for each in self.line(waiting.spec.game)]
        uid = waiting.metadata.uid
        return uids.index(uid) + 1 if uid in uids else 0

    def find(self, name: str) -> Allocation | None:
        return self._cache.get(Key(self._namespace, name))

    def server_of(self, allocation: Allocation) -> Server | None:
        """Its server, and no namesake that came after it."""
        server = self._servers.get(allocation.key)
        if server is None or server.metadata.uid != allocation.spec.server_uid:
            return None
        return server

    def acknowledged(self, allocation: Allocation) -> bool:
        if allocation.status.acknowledged:
            return True
        server = self.server_of(allocation)
        said = server.status.game if server is not None else None
        return said is not None and said.acknowledged == allocation.metadata.uid

    def all(self) -> list[Allocation]:
        return self._counting(self._cache.all())

    def overtaken(self, allocation: Allocation) -> bool:
        """Whether the server was being removed when it was made."""
        return overtaken(allocation, self._cache)

    def _counting(self, found: list[Allocation]) -> list[Allocation]:
        """Without those whose server was being removed when they were made."""
        return [each for each in found if not self.overtaken(each)]

    # Waiting ----------------------------------------------------------------------------

    async def seen(self, revision: str, within: float) -> bool:
        """Wait until the cache shows a state that is not older than this revision."""
        at = number(revision)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while self._cache.revision < at and loop.time() < deadline:
            shown: asyncio.Future[None] = loop.create_future()
            heapq.heappush(self._unseen, (at, next(self._tickets), shown))
            # Of a list that lacks it, nobody is told.
            await asyncio.wait({shown}, timeout=LOOK_AGAIN_SECONDS)
            shown.cancel()
        return self._cache.revision >= at

    async def moved_on(self, allocation: Allocation, within: float) -> None:
        """Wait until the cache shows something else than this version of it."""
        meta = allocation.metadata

        def still() -> bool:
            now = self._cache.get(allocation.key)
            return now is not None and (
                now.metadata.uid == meta.uid
                and now.metadata.resource_version == meta.resource_version
            )

        await self.until(allocation.key, lambda: not still(), within)

    async def until(self, topic: Hashable, holds: Callable[[], bool], within: float) -> bool:
        """Wait until `holds`, which is asked at each change of the topic (see `watching`)."""
        with self.watching(topic) as changed, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while not holds():
                    changed.clear()
                    await changed.wait()
        return holds()

    @contextlib.contextmanager
    def watching(self, topic: Hashable) -> Iterator[asyncio.Event]:
        """An event that is set at each change of a match or of a server, by its key."""
        event = asyncio.Event()
        self._watched.setdefault(topic, set()).add(event)
        try:
            yield event
        finally:
            self._watched[topic].discard(event)
            if not self._watched[topic]:
                del self._watched[topic]

    def wake_all(self) -> None:
        """When the server ends: who waits is answered as things are."""
        for topic in list(self._watched):
            self._tell(topic)

    def _allocation_changed(self, old: Allocation | None, new: Allocation | None, _: bool) -> None:
        while self._unseen and self._unseen[0][0] <= self._cache.revision:
            shown = heapq.heappop(self._unseen)[2]
            if not shown.done():
                shown.set_result(None)
        self._count_line(old, -1)
        self._count_line(new, 1)
        for each in (old, new):
            if each is not None:
                self._tell(each.key)
                self._tell(match_of(each))
        self._tell(ANYTHING)

    def _count_line(self, allocation: Allocation | None, by: int) -> None:
        if allocation is None or allocation.spec.waiting is None:
            return
        key, wish = (allocation.spec.game, allocation.spec.holder), wished(allocation)
        line = self._lines.setdefault(key, Counter())
        line[wish] += by
        if not line[wish]:
            del line[wish]
        if not line:
            del self._lines[key]

    def _server_changed(self, old: Server | None, new: Server | None, _: bool) -> None:
        if (changed := new or old) is not None:
            self._tell(changed.key)
            self._tell(ANYTHING)

    def _tell(self, topic: Hashable) -> None:
        for event in self._watched.get(topic, ()):
            event.set()
