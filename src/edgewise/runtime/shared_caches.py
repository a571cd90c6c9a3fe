"""One cache and one watch per kind and selection, however many controllers want it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from edgewise.kube.objects import Kind, Object
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.cache import Cache
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.reflector import IDLE_TIMEOUT, PAGE, ListWatch, Reflector
from edgewise.runtime.selection import EVERYTHING, Selection

T = TypeVar("T", bound=Object)
Trim = Callable[[Any], Any]


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
    ) -> None:
        """With `namespace`, nothing outside of it is looked at unless it is asked for."""
        self._client = client
        self._namespace = namespace
        self._trims = dict(trims or {})
        self._page = page
        self._idle_timeout = idle_timeout
        self._backoff = backoff
        self._chance = chance
        self._monotonic = monotonic
        self._metrics = metrics or Metrics()
        self._reflectors: dict[tuple[type[Object], Selection], Reflector[Any]] = {}

    def of(self, kind: type[T], selection: Selection = EVERYTHING) -> Cache[T]:
        """The cache of a kind, made at the first call. All of them are kept by `run`."""
        if selection.namespace is None and self._namespace and kind.KIND.namespaced:
            selection = msgspec.structs.replace(selection, namespace=self._namespace)
        reflector = self._reflectors.get((kind, selection))
        if reflector is None:
            cache = Cache(
                kind,
                selection=selection,
                trim=self._trims.get(kind),
                monotonic=self._monotonic,
            )
            reflector = Reflector(
                self._client,
                cache,
                page=self._page,
                idle_timeout=self._idle_timeout,
                backoff=self._backoff,
                chance=self._chance,
                monotonic=self._monotonic,
                metrics=self._metrics,
            )
            self._reflectors[kind, selection] = reflector
        return cast(Cache[T], reflector.cache)

    def holding(self, kind: Kind) -> list[Cache[Any]]:
        """All caches that may hold objects of a kind, of whatever Python type."""
        return [
            reflector.cache
            for (held, _), reflector in self._reflectors.items()
            if kind == held.KIND
        ]

    async def run(self) -> None:
        """Keep all caches up to date, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors.values():
                tasks.create_task(reflector.run(), name=f"reflector {reflector.cache.name}")

    async def wait_synced(self) -> None:
        """Return once every cache has taken over its first list."""
        for reflector in list(self._reflectors.values()):
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
