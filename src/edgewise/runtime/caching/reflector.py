"""Keeps a cache equal to the API server's state: one list, then a watch, for ever.

Whatever breaks, the stream is taken up where it broke. Only when the API server cannot do
that any more (410: the history is gone; or its state was set back) everything is listed
again, and the cache works out from the difference what was deleted meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable
from typing import Generic, Protocol, TypeVar

from edgewise.kube.client import Listing
from edgewise.kube.errors import (
    Gone,
    KubeError,
    ServerError,
    Silent,
    TooLarge,
    TooManyRequests,
    Unreachable,
)
from edgewise.kube.objects import Object
from edgewise.kube.watching import Change, ChangeType
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.caching.cache import Cache, number
from edgewise.runtime.caching.weights import Weights
from edgewise.runtime.metrics import Heartbeat, Metrics
from edgewise.runtime.retry import LONGEST_WISH

T = TypeVar("T", bound=Object)

PAGE = 500
# Watches end by themselves after this long, at moments that differ between processes.
WATCH_SECONDS = (240, 300)
IDLE_TIMEOUT = 90.0
# A watch that lasted this long counts as healthy, even if it was silent.
HEALTHY_AFTER = 10.0
# After an answer that was too large, twice that at most.
TOO_LARGE_SECONDS = 15.0

_log = logging.getLogger(__name__)


class ListWatch(Protocol):
    """The part of the client that a reflector needs."""

    def pages(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        limit: int = PAGE,
    ) -> AsyncGenerator[Listing[T], None]: ...

    def watch(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout_seconds: int = 300,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> AsyncGenerator[Change[T], None]: ...


class Reflector(Generic[T]):
    """Fills one cache. `run` it in a task; cancel the task to stop."""

    def __init__(
        self,
        client: ListWatch,
        cache: Cache[T],
        *,
        page: int = PAGE,
        idle_timeout: float = IDLE_TIMEOUT,
        backoff: Backoff | None = None,
        chance: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
        metrics: Metrics | None = None,
        weights: Weights | None = None,
    ) -> None:
        """With `weights`, a cluster that shows more than they allow is not followed."""
        self.cache = cache
        self.heartbeat = Heartbeat(monotonic)
        self.last_error: Exception | None = None
        self._client = client
        self._page = page
        self._idle_timeout = idle_timeout
        self._backoff = backoff or Backoff(first=0.1, most=30.0)
        self._chance = chance
        self._monotonic = monotonic
        self._kind = cache.kind.KIND.kind
        self._metrics = metrics or Metrics()
        self._metrics.cache_objects.labels(cache.name).set_function(lambda: len(cache))
        unreadable = self._metrics.cache_unreadable.labels(cache.name)
        unreadable.set_function(lambda: len(cache.left_out))
        self._metrics.cache_age.labels(cache.name).set_function(self.heartbeat.age)
        self._count_event = self._metrics.watch_events.labels(cache.name).inc
        self._weights = self._fetched_weights = weights
        self._position = ""
        self._failures = 0
        self._listing = asyncio.Lock()
        self._synced = asyncio.Event()

    @property
    def weight(self) -> int:
        """About how many bytes its cache holds; 0 if nobody counts them."""
        return self._weights.total if self._weights is not None else 0

    async def run(self) -> None:
        while True:
            try:
                await self._list()
            except Exception as error:
                await self._pause("list", error)
                continue
            await self._follow()

    @property
    def synced(self) -> bool:
        """Whether this reflector has listed; its cache may be filled by another one before."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return once the first list has been taken over."""
        await self._synced.wait()

    def give_up(self) -> None:
        """It will never list: let go of those who wait for that."""
        self._synced.set()

    async def refresh(self) -> None:
        """Make the cache at least as new as this call, while the watch goes on.

        Raises what the API server answers if it cannot be done.
        """
        async with self._listing:
            begun, known = self._monotonic(), self.cache.revision
            found = await self._fetch_all()
            revision = found.resource_version
            # A watch that is further than the list already shows all that the list does,
            # unless it was further before the list was asked for.
            if number(revision) >= self.cache.revision or number(revision) < known:
                self._take_over(found, begun)

    # Listing ------------------------------------------------------------------------

    async def _list(self) -> None:
        async with self._listing:
            begun = self._monotonic()
            self._take_over(await self._fetch_all(), begun)
        self.last_error = None

    async def _fetch_all(self) -> Listing[T]:
        try:
            return await self._fetch(self._page)
        except Gone:
            # The pages took longer than history is kept. In one piece it cannot happen.
            self._restarted("continue token expired")
            return await self._fetch(limit=0)

    async def _fetch(self, limit: int) -> Listing[T]:
        started = self._monotonic()
        whole: Listing[T] = Listing(items=[])
        weights = self._weights.fresh() if self._weights is not None else None
        pages = self._pages(limit)
        try:
            async with contextlib.aclosing(pages):
                async for page in pages:
                    if weights is not None:
                        weights.add_page(page.items, page.size)
                    whole.items += page.items
                    whole.unreadable += page.unreadable
                    whole.resource_version = page.resource_version
                    self._metrics.request("list", self._kind, 200)
        except KubeError as error:
            self._metrics.request("list", self._kind, getattr(error, "status", 0))
            raise
        self._metrics.list_seconds.labels(self.cache.name).observe(self._monotonic() - started)
        self._fetched_weights = weights
        return whole

    def _pages(self, limit: int) -> AsyncGenerator[Listing[T], None]:
        selection = self.cache.selection
        return self._client.pages(
            self.cache.kind,
            selection.namespace,
            labels=selection.labels,
            fields=selection.fields,
            limit=limit,
        )

    def _take_over(self, found: Listing[T], begun: float) -> None:
        self.cache.replace(
            found.items, found.resource_version, begun=begun, unreadable=found.unreadable
        )
        self._weights = self._fetched_weights
        self._position = found.resource_version
        self._metrics.lists.labels(self.cache.name).inc()
        self.heartbeat.beat()
        self._synced.set()

    # Watching -----------------------------------------------------------------------

    async def _follow(self) -> None:
        """Watch until only a new list helps."""
        resuming = False
        while True:
            started = self._monotonic()
            trouble: Exception | None = None
            heard = False
            try:
                if resuming and await self._is_ahead():
                    self._restarted("set back")
                    return
                resuming = True
                heard = await self._watch()
            except Exception as error:
                trouble = error
            lasted = self._monotonic() - started >= HEALTHY_AFTER
            if lasted:
                self._failures = 0
            if trouble is None:
                self._restarted("ended")
                if not heard and not lasted:
                    await self._pause("watch", None)
            elif isinstance(trouble, Silent):
                # The server answered when the watch began; only a new one can tell more.
                self.heartbeat.beat(started)
                self._restarted("silent")
            elif isinstance(trouble, Gone) and not self._failures:
                # List at once the first time; a server that keeps saying so is given a rest.
                self._failures = 1
                self._restarted("history expired")
                return
            else:
                await self._pause("watch", trouble)
                if not _resumable(trouble):
                    return

    async def _is_ahead(self) -> bool:
        """Whether the server has not reached our position, because etcd was restored meanwhile.

        It would not refuse a watch from there, but be silent until it has reached it again.
        """
        async with contextlib.aclosing(self._pages(limit=1)) as pages:
            first = await anext(pages)
        return number(first.resource_version) < number(self._position)

    async def _watch(self) -> bool:
        """One watch to its end; answers whether it brought anything."""
        selection = self.cache.selection
        low, high = WATCH_SECONDS
        changes = self._client.watch(
            self.cache.kind,
            selection.namespace,
            resource_version=self._position,
            labels=selection.labels,
            fields=selection.fields,
            timeout_seconds=low + int(self._chance() * (high - low)),
            idle_timeout=self._idle_timeout,
        )
        heard = False
        code = 200
        try:
            async with contextlib.aclosing(changes):
                async for change in changes:
                    self._take_in(change)
                    heard = True
        except KubeError as error:
            code = getattr(error, "status", 0)
            raise
        finally:
            self._metrics.request("watch", self._kind, code)
        return heard

    def _take_in(self, change: Change[T]) -> None:
        obj = change.object
        revision = obj.metadata.resource_version
        if change.type is ChangeType.BOOKMARK:
            self.cache.progress(revision)
        else:
            deleted = change.type is ChangeType.DELETED
            if self._weights is not None:
                self._weigh(self._weights, change, deleted=deleted)
            if change.unreadable is not None and not deleted:
                self.cache.leave_out(change.unreadable)
            else:
                self.cache.apply(obj, deleted=deleted)
            self._count_event()
        if number(revision) >= number(self._position):
            # A repeated event must not take us back to where it came from.
            self._position = revision
        self._failures = 0
        self.last_error = None
        self.heartbeat.beat()

    def _weigh(self, weights: Weights, change: Change[T], *, deleted: bool) -> None:
        if deleted:
            weights.remove(change.object.key)
        else:
            weights.change(change.object.key, change.size)

    # Trouble ------------------------------------------------------------------------

    async def _pause(self, doing: str, error: Exception | None) -> None:
        self._failures += 1
        delay = self._backoff.delay(self._failures, self._chance)
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            # Everybody who was sent away comes back at a different moment, and one who is sent
            # away again and again comes less and less often.
            delay = max(delay, min(asked, LONGEST_WISH) * (1 + 0.1 * self._chance()))
        if isinstance(error, TooLarge):
            # It is not going to be small in a moment, and finding out again is not cheap.
            delay = max(delay, TOO_LARGE_SECONDS * (1 + self._chance()))
        if error is not None:
            self.last_error = error
            self._restarted(type(error).__name__)
            expected = isinstance(error, KubeError)
            _log.log(
                # A hiccup is normal; a lasting trouble is worth a warning.
                logging.WARNING if self._failures > 1 or not expected else logging.INFO,
                "cannot %s %s, trying again in %.1f s: %s",
                doing,
                self.cache.name,
                delay,
                error,
                exc_info=None if expected else error,
            )
        await asyncio.sleep(delay)

    def _restarted(self, reason: str) -> None:
        self._metrics.watch_restarts.labels(self.cache.name, reason).inc()


def _resumable(error: Exception) -> bool:
    """Whether the watch can be taken up where it broke, or everything must be listed again."""
    if isinstance(error, TooLarge):
        return False
    if isinstance(error, Unreachable | TooManyRequests):
        return True
    if isinstance(error, ServerError):
        # Unless the server says that our resource version lies in its future.
        causes = error.details.get("causes") or []
        return all(cause.get("reason") != "ResourceVersionTooLarge" for cause in causes)
    return False
