"""One cache and one watch per kind and selection, however many controllers want it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from edgewise.kube.objects import Kind, Object
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.reflector import IDLE_TIMEOUT, PAGE, ListWatch, Reflector
from edgewise.runtime.caching.selection import EVERYTHING, Selection
from edgewise.runtime.caching.weights import Weights
from edgewise.runtime.metrics import Metrics

T = TypeVar("T", bound=Object)
Trim = Callable[[Any], Any]
Wanted = tuple[type[Object], Selection]


class SharedCaches:
    def __init__(
        self,
        client: ListWatch,
        *,
        namespace: str | None = None,
        trims: Mapping[type[Object], Trim] | None = None,
        page: int = PAGE,
        idle_timeout: float = IDLE_TIMEOUT,
        backoff: Backoff | None = None,
        chance: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
        metrics: Metrics | None = None,
        label: str = "",
        heaviest: Callable[[type[Object]], int] | None = None,
    ) -> None:
        """With `namespace`, nothing outside of it is looked at unless it is asked for.

        `label` tells the caches of several clusters apart in metrics; with `heaviest`, no cache
        of a kind holds more bytes than it says.
        """
        self._client = client
        self._namespace = namespace
        self._trims = dict(trims or {})
        self._page = page
        self._idle_timeout = idle_timeout
        self._backoff = backoff
        self._chance = chance
        self._monotonic = monotonic
        self._metrics = metrics or Metrics()
        self._label = label
        self._heaviest = heaviest
        self._reflectors: dict[Wanted, Reflector[Any]] = {}
        self._holding: dict[Kind, dict[Wanted, Cache[Any]]] = {}  # the same, by kind
        self._most: dict[Wanted, Callable[[], int]] = {}
        self._group: asyncio.TaskGroup | None = None  # while `run` does
        self._tasks: dict[Wanted, asyncio.Task[None]] = {}

    def of(
        self,
        kind: type[T],
        selection: Selection = EVERYTHING,
        *,
        most: Callable[[], int] | None = None,
    ) -> Cache[T]:
        """The cache of a kind, made at the first call. `run` keeps all of them, also new ones.

        `most` says how many bytes it may hold: then it is not followed any further, and `error`
        says so.
        """
        key = self._key(kind, selection)
        if key not in self._reflectors:
            if most is not None:
                self._most[key] = most
            cache = Cache(
                kind,
                selection=key[1],
                trim=self._trims.get(kind),
                monotonic=self._monotonic,
            )
            if self._label:
                cache.name = f"{self._label}/{cache.name}"
            self._reflectors[key] = self._reflector(key, cache)
            self._holding.setdefault(kind.KIND, {})[key] = cache
            self._begin(key)
        return cast(Cache[T], self._reflectors[key].cache)

    def close(self, kind: type[Object], selection: Selection = EVERYTHING) -> None:
        """End the watch of a cache that nothing needs any more, and forget the cache."""
        key = self._key(kind, selection)
        reflector = self._reflectors.pop(key, None)
        self._holding.get(kind.KIND, {}).pop(key, None)
        self._most.pop(key, None)
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
        if reflector is not None:
            reflector.give_up()
            self._metrics.forget_cache(reflector.cache.name)

    def forget_metrics(self) -> None:
        """Of a cluster that went: its series would be shown for ever."""
        for cache in self:
            self._metrics.forget_cache(cache.name)

    def renew(self) -> None:
        """Make the next `run` list everything again, into the same caches."""
        for key, reflector in self._reflectors.items():
            self._reflectors[key] = self._reflector(key, reflector.cache)
            reflector.give_up()

    def _key(self, kind: type[Object], selection: Selection) -> Wanted:
        if selection.namespace is None and self._namespace and kind.KIND.namespaced:
            selection = msgspec.structs.replace(selection, namespace=self._namespace)
        return kind, selection

    def _reflector(self, key: Wanted, cache: Cache[T]) -> Reflector[T]:
        most = self._most.get(key)
        if most is None and self._heaviest is not None:
            most = partial(self._heaviest, cache.kind)
        weights = Weights(cache.name, most) if most is not None else None
        return Reflector(
            self._client,
            cache,
            page=self._page,
            idle_timeout=self._idle_timeout,
            backoff=self._backoff,
            chance=self._chance,
            monotonic=self._monotonic,
            metrics=self._metrics,
            weights=weights,
        )

    def _begin(self, key: Wanted) -> None:
        if self._group is not None:
            reflector = self._reflectors[key]
            name = f"reflector {reflector.cache.name}"
            self._tasks[key] = self._group.create_task(reflector.run(), name=name)

    def __iter__(self) -> Iterator[Cache[Any]]:
        return iter([reflector.cache for reflector in self._reflectors.values()])

    def holding(self, kind: Kind) -> list[Cache[Any]]:
        """All caches that may hold objects of a kind, of whatever Python type."""
        return [*self._holding.get(kind, {}).values()]

    async def run(self) -> None:
        """Keep all caches up to date, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for key in self._reflectors:
                    self._begin(key)
                await asyncio.Event().wait()  # new ones may come as long as we run
            finally:
                self._group = None
                self._tasks.clear()

    async def wait_synced(self) -> None:
        """Return once every cache has taken over its first list."""
        while waiting := [each for each in self._reflectors.values() if not each.synced]:
            for reflector in waiting:
                await reflector.wait_synced()

    async def wait_for(self, kind: type[Object], selection: Selection = EVERYTHING) -> None:
        """Return once one cache has taken over its first list, or is closed."""
        key = self._key(kind, selection)
        while (reflector := self._reflectors.get(key)) and not reflector.cache.synced:
            await reflector.wait_synced()

    async def refresh(self, kind: Kind | None = None) -> None:
        """Make all caches (or those of a kind) at least as new as this call."""
        async with asyncio.TaskGroup() as tasks:
            for (held, _), reflector in self._reflectors.items():
                if kind is None or kind == held.KIND:
                    tasks.create_task(reflector.refresh())

    def ages(self) -> dict[str, float]:
        """Seconds since each cache last heard from the API server."""
        return {each.cache.name: each.heartbeat.age() for each in self._reflectors.values()}

    def error(self, kind: type[Object], selection: Selection = EVERYTHING) -> Exception | None:
        """What keeps one cache from its API server now."""
        found = self._reflectors.get(self._key(kind, selection))
        return found.last_error if found is not None else None

    def weight(self, kind: type[Object], selection: Selection = EVERYTHING) -> int:
        """About how many bytes one cache holds, where it was said how many it may."""
        found = self._reflectors.get(self._key(kind, selection))
        return found.weight if found is not None else 0

    def errors(self) -> list[Exception]:
        """What keeps caches from their API server now."""
        errors = (each.last_error for each in self._reflectors.values())
        return [error for error in errors if error is not None]

    def troubles(self) -> dict[str, str]:
        """What keeps a cache from its API server, for those that have trouble now."""
        return {
            each.cache.name: str(each.last_error)
            for each in self._reflectors.values()
            if each.last_error is not None
        }

    @property
    def synced(self) -> bool:
        return all(reflector.cache.synced for reflector in self._reflectors.values())
