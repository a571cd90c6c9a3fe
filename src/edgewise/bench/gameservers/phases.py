"""One phase of a bench at a time: how long it takes, and what it costs the cluster."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from edgewise.bench.process_cost import cpu_seconds
from edgewise.bench.summary import ratio
from edgewise.kube.objects import Object
from edgewise.local.clusters import LocalCluster
from edgewise.runtime.caching.cache import Cache

PATIENCE = 600.0
AT_ONCE = 16  # as many as the operator has under way for a fleet
# Of the cluster's programs, those that a fleet keeps busy.
COUNTED = ("kube-", "etcd", "kwok", "operator")
# What a phase leaves to be done (garbage, events, counts) must not be paid for by the next one.
REST_SECONDS = 0.5
REST_CORES = 0.25
LONGEST_REST = 15.0


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    programs: dict[str, float] = {}  # seconds of processor time, by program
    writes: float = 0.0
    conflicts: float = 0.0

    @property
    def cpu(self) -> float:
        return sum(self.programs.values())


class Phases:
    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    async def measure(self, work: Callable[[], Awaitable[None]]) -> Costs:
        await self.rest()
        before, began = self.programs(), time.monotonic()
        await work()
        seconds, after = time.monotonic() - began, self.programs()
        used = {name: after[name] - before.get(name, 0.0) for name in after}
        return Costs(seconds=seconds, programs=used)

    async def rest(self) -> None:
        """Wait until the cluster has next to nothing to do."""
        deadline = time.monotonic() + LONGEST_REST
        while time.monotonic() < deadline:
            before = sum(self.programs().values())
            await asyncio.sleep(REST_SECONDS)
            if sum(self.programs().values()) - before < REST_CORES * REST_SECONDS:
                return

    def programs(self) -> dict[str, float]:
        """What each program has used so far."""
        found: dict[str, float] = {}
        for each in self._cluster.running():
            if each.component.startswith(COUNTED):
                found[each.component] = found.get(each.component, 0.0) + cpu_seconds(each.pid)
        return found


async def until(done: Callable[[], bool], caches: Iterable[Cache[Any]]) -> None:
    """Looked at after changes, a few times a second: waiting costs next to nothing."""
    event = asyncio.Event()

    def changed(_: Object | None, __: Object | None, ___: bool) -> None:
        event.set()

    ends = [cache.subscribe(changed) for cache in caches]
    try:
        async with asyncio.timeout(PATIENCE):
            while not done():
                event.clear()
                await event.wait()
                await asyncio.sleep(0.05)
    finally:
        for end in ends:
            end()


async def some_at_once(numbers: Iterable[int], do: Callable[[int], Awaitable[None]]) -> None:
    waiting = list(numbers)
    waiting.reverse()

    async def work() -> None:
        while waiting:
            await do(waiting.pop())

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


def middle(values: Iterable[float]) -> float:
    return statistics.median(values)


def by_program(runs: list[Costs]) -> dict[str, float]:
    """The median of each program."""
    names = sorted({name for each in runs for name in each.programs})
    return {name: round(middle(each.programs.get(name, 0.0) for each in runs), 1) for name in names}


def middle_ratio(values: Iterable[float], floors: Iterable[float]) -> float | None:
    """The median, each run beside the floor that was measured next to it."""
    found = [ratio(value, floor) for value, floor in zip(values, floors, strict=True)]
    known = [each for each in found if each is not None]
    return round(middle(known), 3) if known else None
