"""A fleet from nothing to all its servers ready, beside as many bare pods.

Runs alternate with their floor, so that a busy machine is busy for both. On simulated nodes the
API server, scheduler and controllers are the real ones; what is measured is what they cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from edgewise.api.games import Fleet, Server
from edgewise.bench.gameservers.bare_pods import NAMESPACE, BarePods, fleet_spec
from edgewise.bench.gameservers.phases import Costs, Phases, by_program, middle, middle_ratio, until
from edgewise.bench.operator_metrics import OperatorMetrics, read_metrics
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace
from edgewise.local.clusters import LocalCluster
from edgewise.local.platform import Platform
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches

Tell = Callable[[str], None]


class FleetBench:
    def __init__(
        self, cluster: LocalCluster, client: Client, platform: Platform, servers: int, tell: Tell
    ) -> None:
        self._phases = Phases(cluster)
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
        async with self._watching() as pods:
            for number in range(runs):
                bare.append(await self._phases.measure(pods.up))
                bare_down.append(await self._phases.measure(pods.down))
                fleets.append(await self._measured(self._up))
                fleets_down.append(await self._measured(self._down))
                self._tell(
                    f"run {number + 1}: fleet {fleets[-1].seconds:.1f} s, bare "
                    f"{bare[-1].seconds:.1f} s; down {fleets_down[-1].seconds:.1f} s, bare "
                    f"{bare_down[-1].seconds:.1f} s"
                )
        figures = up_figures(self._servers, fleets, bare)
        return figures | (down_figures(self._servers, fleets_down, bare_down) if down else {})

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[BarePods]:
        caches = SharedCaches(self._client)
        pods = BarePods(self._client, caches, self._servers)
        self._seen: Cache[Server] = caches.of(Server, Selection(namespace=NAMESPACE))
        keeping = asyncio.create_task(caches.run())
        try:
            async with aiohttp.ClientSession() as self._http:
                yield pods
        finally:
            keeping.cancel()
            await asyncio.wait((keeping,))

    async def _measured(self, work: Callable[[], Awaitable[None]]) -> Costs:
        await self._phases.rest()
        before = await self._metrics()
        costs = await self._phases.measure(work)
        # With what is written a moment later, such as the counts of the fleet.
        await self._phases.rest()
        after = await self._metrics()
        return msgspec.structs.replace(
            costs,
            writes=sum(after.writes.values()) - sum(before.writes.values()),
            conflicts=_conflicts(after) - _conflicts(before),
        )

    async def _metrics(self) -> OperatorMetrics:
        return await read_metrics(self._http, self._platform.operator_url)

    async def _up(self) -> None:
        await self._client.apply(
            {
                "apiVersion": Fleet.KIND.api_version,
                "kind": "Fleet",
                "metadata": {"name": "arena", "namespace": NAMESPACE},
                "spec": fleet_spec(self._servers),
            }
        )
        await until(
            lambda: sum(each.status.state == "Ready" for each in self._seen) >= self._servers,
            (self._seen,),
        )

    async def _down(self) -> None:
        body = {"spec": {"scaling": {"replicas": 0}}}
        await self._client.patch(Fleet, "arena", NAMESPACE, body=body)
        await until(lambda: not len(self._seen), (self._seen,))


def up_figures(servers: int, fleets: list[Costs], bare: list[Costs]) -> dict[str, Any]:
    writes = sum(each.writes for each in fleets)
    return {
        "servers": servers,
        "runs": len(fleets),
        "fleet_s": round(middle(each.seconds for each in fleets), 2),
        "bare_s": round(middle(each.seconds for each in bare), 2),
        "ratio": middle_ratio((each.seconds for each in fleets), (b.seconds for b in bare)),
        "cpu_s": round(middle(each.cpu for each in fleets), 1),
        "bare_cpu_s": round(middle(each.cpu for each in bare), 1),
        "cpu_ratio": middle_ratio((each.cpu for each in fleets), (b.cpu for b in bare)),
        "cpu_by_program": by_program(fleets),
        "bare_cpu_by_program": by_program(bare),
        "writes_per_server": round(middle(each.writes for each in fleets) / servers, 3),
        "conflicts": round(sum(each.conflicts for each in fleets) / max(writes, 1), 4),
    }


def down_figures(servers: int, fleets: list[Costs], bare: list[Costs]) -> dict[str, Any]:
    return {
        "down_s": round(middle(each.seconds for each in fleets), 2),
        "bare_down_s": round(middle(each.seconds for each in bare), 2),
        "down_ratio": middle_ratio((each.seconds for each in fleets), (b.seconds for b in bare)),
        "down_cpu_ratio": middle_ratio((each.cpu for each in fleets), (b.cpu for b in bare)),
        "down_cpu_by_program": by_program(fleets),
        "writes_per_removal": round(middle(each.writes for each in fleets) / servers, 3),
    }


def _conflicts(metrics: OperatorMetrics) -> float:
    return metrics.total("edgewise_api_requests_total", code="409")
