"""A fleet from nothing to all its servers ready, beside as many bare pods.

Runs alternate with their floor, so that a busy machine is busy for both. On simulated nodes the
API server, scheduler and controllers are the real ones; what is measured is what they cost.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from edgewise.api.games import Fleet, Server
from edgewise.bench.operator_metrics import OperatorMetrics, read_metrics
from edgewise.bench.process_cost import cpu_seconds
from edgewise.bench.summary import ratio
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.kube.objects import Object
from edgewise.local.clusters import LocalCluster
from edgewise.local.platform import Platform
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches

Tell = Callable[[str], None]

NAMESPACE = "fleets"
BARE = "edgewise-bench=bare"
IMAGE = "edgewise.local/simulated:1"
AT_ONCE = 16  # as many as the operator has under way for a fleet
PATIENCE = 600.0
# Of the cluster's programs, those that a fleet keeps busy.
COUNTED = ("kube-", "etcd", "kwok", "operator")


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    cpu: float
    writes: float = 0.0
    conflicts: float = 0.0


class FleetBench:
    def __init__(
        self, cluster: LocalCluster, client: Client, platform: Platform, servers: int, tell: Tell
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._platform = platform
        self._servers = servers
        self._tell = tell

    async def run(self, runs: int, *, down: bool) -> dict[str, Any]:
        await self._client.create(Namespace.named(NAMESPACE))
        fleets: list[Costs] = []
        bare: list[Costs] = []
        fleets_down: list[Costs] = []
        bare_down: list[Costs] = []
        async with self._watching():
            for number in range(runs):
                bare.append(await self._measured(self._bare_up))
                bare_down.append(await self._measured(self._bare_down))
                fleets.append(await self._measured(self._fleet_up))
                fleets_down.append(await self._measured(self._fleet_down))
                self._tell(
                    f"run {number + 1}: fleet {fleets[-1].seconds:.1f} s, bare "
                    f"{bare[-1].seconds:.1f} s; down {fleets_down[-1].seconds:.1f} s, bare "
                    f"{bare_down[-1].seconds:.1f} s"
                )
        figures = self._up_figures(fleets, bare)
        return figures | (self._down_figures(fleets_down, bare_down) if down else {})

    def _up_figures(self, fleets: list[Costs], bare: list[Costs]) -> dict[str, Any]:
        writes = sum(each.writes for each in fleets)
        return {
            "servers": self._servers,
            "runs": len(fleets),
            "fleet_s": round(_median(each.seconds for each in fleets), 2),
            "bare_s": round(_median(each.seconds for each in bare), 2),
            "ratio": _median_ratio((each.seconds for each in fleets), (b.seconds for b in bare)),
            "cpu_s": round(_median(each.cpu for each in fleets), 1),
            "bare_cpu_s": round(_median(each.cpu for each in bare), 1),
            "cpu_ratio": _median_ratio((each.cpu for each in fleets), (b.cpu for b in bare)),
            "writes_per_server": round(_median(each.writes for each in fleets) / self._servers, 3),
            "conflicts": round(sum(each.conflicts for each in fleets) / max(writes, 1), 4),
        }

    def _down_figures(self, fleets: list[Costs], bare: list[Costs]) -> dict[str, Any]:
        return {
            "down_s": round(_median(each.seconds for each in fleets), 2),
            "bare_down_s": round(_median(each.seconds for each in bare), 2),
            "down_ratio": _median_ratio(
                (each.seconds for each in fleets), (b.seconds for b in bare)
            ),
            "writes_per_removal": round(_median(each.writes for each in fleets) / self._servers, 3),
        }

    # Watching -----------------------------------------------------------------------

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        caches = SharedCaches(self._client)
        self._bare: Cache[Pod] = caches.of(Pod, Selection(namespace=NAMESPACE, labels=BARE))
        self._seen: Cache[Server] = caches.of(Server, Selection(namespace=NAMESPACE))
        keeping = asyncio.create_task(caches.run())
        try:
            async with aiohttp.ClientSession() as self._http:
                yield
        finally:
            keeping.cancel()
            await asyncio.wait((keeping,))

    async def _until(self, done: Callable[[], bool], caches: Iterable[Cache[Any]]) -> None:
        """Looked at after each change, so that waiting costs next to nothing."""
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

    async def _measured(self, work: Callable[[], Any]) -> Costs:
        before, cpu, began = await self._metrics(), self._cpu(), time.monotonic()
        await work()
        seconds, used, after = time.monotonic() - began, self._cpu() - cpu, await self._metrics()
        return Costs(
            seconds=seconds,
            cpu=used,
            writes=sum(after.writes.values()) - sum(before.writes.values()),
            conflicts=_conflicts(after) - _conflicts(before),
        )

    async def _metrics(self) -> OperatorMetrics:
        return await read_metrics(self._http, self._platform.operator_url)

    def _cpu(self) -> float:
        return sum(
            cpu_seconds(each.pid)
            for each in self._cluster.running()
            if each.component.startswith(COUNTED)
        )

    # What is measured ---------------------------------------------------------------

    async def _bare_up(self) -> None:
        name, _, value = BARE.partition("=")

        async def create(number: int) -> None:
            pod = Pod.named(f"bare-{number}", NAMESPACE, spec={"containers": [_container()]})
            pod.metadata.labels = {name: value}
            await self._client.create(pod)

        await _some_at_once(range(self._servers), create)
        await self._until(
            lambda: sum(pod.ready for pod in self._bare) >= self._servers, (self._bare,)
        )

    async def _bare_down(self) -> None:
        async def delete(number: int) -> None:
            await self._client.delete(Pod, f"bare-{number}", NAMESPACE)

        await _some_at_once(range(self._servers), delete)
        await self._until(lambda: not len(self._bare), (self._bare,))

    async def _fleet_up(self) -> None:
        await self._client.apply(
            {
                "apiVersion": Fleet.KIND.api_version,
                "kind": "Fleet",
                "metadata": {"name": "arena", "namespace": NAMESPACE},
                "spec": {
                    "scaling": {"replicas": self._servers},
                    "spec": {
                        "pod": {"containers": [_container()]},
                        "ports": [{"name": "play", "containerPort": 7000}],
                        "deletion": {"idle": "Allow"},
                    },
                },
            }
        )
        await self._until(
            lambda: sum(each.status.state == "Ready" for each in self._seen) >= self._servers,
            (self._seen,),
        )

    async def _fleet_down(self) -> None:
        body = {"spec": {"scaling": {"replicas": 0}}}
        await self._client.patch(Fleet, "arena", NAMESPACE, body=body)
        await self._until(lambda: not len(self._seen), (self._seen,))


def _container() -> dict[str, Any]:
    return {"name": "game", "image": IMAGE, "resources": {"requests": {"cpu": "1m"}}}


def _conflicts(metrics: OperatorMetrics) -> float:
    return metrics.total("edgewise_api_requests_total", code="409")


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _median_ratio(values: Iterable[float], floors: Iterable[float]) -> float | None:
    """Of each run with the floor that it was measured beside."""
    found = [ratio(value, floor) for value, floor in zip(values, floors, strict=True)]
    known = [each for each in found if each is not None]
    return round(_median(known), 3) if known else None


async def _some_at_once(numbers: Iterable[int], do: Callable[[int], Any]) -> None:
    waiting = list(numbers)
    waiting.reverse()

    async def work() -> None:
        while waiting:
            await do(waiting.pop())

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
