"""What the programs of a platform hold: memory, descriptors, routes and ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from edgewise.api.exposure import PortClaim
from edgewise.bench.operator_metrics import read_metrics
from edgewise.bench.process_cost import descriptors, rss_mb
from edgewise.kube.client import Client

ASK_SECONDS = 10.0


class Held(msgspec.Struct, frozen=True):
    """By one program."""

    memory_mb: float
    descriptors: int


class Weight(msgspec.Struct, frozen=True, kw_only=True):
    programs: dict[str, Held]
    routes: int  # that the gateway serves
    ports: int  # that are claimed


async def weigh(client: Client, pids: Mapping[str, int], gateway_url: str) -> Weight:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ASK_SECONDS)) as http:
        metrics = await read_metrics(http, gateway_url)
    return Weight(
        programs={name: _held(pid) for name, pid in pids.items()},
        routes=int(metrics.total("edgewise_gateway_routes")),
        ports=len((await client.list(PortClaim)).items),
    )


def _held(pid: int) -> Held:
    return Held(round(rss_mb(pid), 1), descriptors(pid))


def growth(before: Weight, after: Weight) -> dict[str, Any]:
    """Memory as a ratio, everything else as a difference."""
    return {
        "memory": {
            name: round(held.memory_mb / before.programs[name].memory_mb, 3)
            for name, held in after.programs.items()
            if name in before.programs and before.programs[name].memory_mb
        },
        "descriptors": {
            name: held.descriptors - before.programs[name].descriptors
            for name, held in after.programs.items()
            if name in before.programs
        },
        "routes": after.routes - before.routes,
        "ports": after.ports - before.ports,
    }
