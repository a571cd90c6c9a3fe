"""Questions to the hub about what the mirror does not show: each is asked once, not once a caller.

What was not there a moment ago is not asked for again at once, or every call about a session that
does not exist would be a request to the hub. The mirror, which is read first, shows what is made
meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# The mirror shows what another replica makes within some ten milliseconds; a caller who asks
# before and after that must not be told for long that it is not there.
MISS_SECONDS = 0.5
MOST_MISSES = 10_000


class Lookups(Generic[K, V]):
    def __init__(
        self,
        ask: Callable[[K], Awaitable[V | None]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._missed: dict[K, float] = {}  # when, the oldest first
        self._asking: dict[K, asyncio.Task[V | None]] = {}

    async def find(self, key: K) -> V | None:
        self._forget_old()
        if key in self._missed:
            return None
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._find(key))
            task.add_done_callback(lambda done: self._asked(key, done))
        # Who gives up does not take the answer from the others.
        return await asyncio.shield(task)

    def forget(self, key: K) -> None:
        """It is there now. An answer that is under way may not know that yet."""
        self._missed.pop(key, None)
        self._asking.pop(key, None)

    async def _find(self, key: K) -> V | None:
        found = await self._ask(key)
        if found is None and self._asking.get(key) is asyncio.current_task():
            self._missed.pop(key, None)
            self._missed[key] = self._monotonic()
        return found

    def _asked(self, key: K, task: asyncio.Task[V | None]) -> None:
        if self._asking.get(key) is task:
            del self._asking[key]
        if not task.cancelled():
            task.exception()  # the callers were told, if any are left

    def _forget_old(self) -> None:
        oldest = self._monotonic() - MISS_SECONDS
        while self._missed:
            key, when = next(iter(self._missed.items()))
            if when > oldest and len(self._missed) <= MOST_MISSES:
                return
            del self._missed[key]
