"""Waiting for objects to become what they should be, to the moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar

from edgewise.errors import ReadableError
from edgewise.kube.client import Client
from edgewise.kube.objects import Key, Object
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.shared_caches import SharedCaches

T = TypeVar("T", bound=Object)
Holds = Callable[[T | None], object]


class WaitedInVain(ReadableError):
    """What was waited for did not happen in time."""


class Waiting(Generic[T]):
    """One listener for any number of waits: what a wait costs does not depend on the cache."""

    def __init__(self, cache: Cache[T]) -> None:
        self.cache = cache
        self._waits: dict[Key, list[tuple[Holds[T], asyncio.Future[T | None]]]] = {}
        cache.subscribe(self._changed)

    def _changed(self, old: T | None, new: T | None, _bulk: bool) -> None:
        changed = new if new is not None else old
        if changed is None:
            return
        for holds, found in self._waits.get(changed.key, ()):
            if not found.done() and holds(new):
                found.set_result(new)

    async def until(self, key: Key, holds: Holds[T], what: str, within: float = 60.0) -> T | None:
        """The object as soon as `holds` is true of it (`None`: it is not there)."""
        now = self.cache.get(key)
        if holds(now):
            return now
        found: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        waits = self._waits.setdefault(key, [])
        waits.append((holds, found))
        try:
            async with asyncio.timeout(within):
                return await found
        except TimeoutError:
            raise WaitedInVain(f"{what} did not happen within {within:.0f} s") from None
        finally:
            waits[:] = [each for each in waits if each[1] is not found]
            if not waits:
                self._waits.pop(key, None)


@contextlib.asynccontextmanager
async def watching(client: Client, *kinds: type[Any]) -> AsyncIterator[list[Waiting[Any]]]:
    """Caches of these kinds, kept up to date inside the block."""
    caches = SharedCaches(client)
    waits = [Waiting(caches.of(kind)) for kind in kinds]
    task = asyncio.create_task(caches.run())
    try:
        await asyncio.wait_for(caches.wait_synced(), 60)
        yield waits
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
