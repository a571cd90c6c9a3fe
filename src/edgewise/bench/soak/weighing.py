"""What the programs of a platform hold: memory, descriptors, routes and ports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import msgspec

from edgewise.api.exposure import PortClaim
from edgewise.bench.operator_metrics import read_metrics
from edgewise.bench.process_cost import descriptors, rss_mb
from edgewise.kube.client import Client
from edgewise.runtime.listening.web_app import KEEP_ALIVE_SECONDS

ASK_SECONDS = 10.0
AGAIN_SECONDS = 0.5
# A connection that is kept for the next request is no growth: one is there after a busy moment, and
# none after a quiet one. By now whoever waits longest for a next request has closed it.
IDLE_SECONDS = KEEP_ALIVE_SECONDS + 5.0


class Held(msgspec.Struct, frozen=True):
    """By one program."""

    memory_mb: float
    descriptors: int
    kinds: dict[str, int] = {}  # of the descriptors


class Weight(msgspec.Struct, frozen=True, kw_only=True):
    programs: dict[str, Held]
    routes: int  # that the gateway serves
    ports: int  # that are claimed


async def weigh(client: Client, pids: Mapping[str, int], gateway_url: str) -> Weight:
    # Before anything is asked: whoever asks has a connection, which they hold, too.
    programs = {name: _held(pid) for name, pid in pids.items()}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ASK_SECONDS)) as http:
        metrics = await read_metrics(http, gateway_url)
    return Weight(
        programs=programs,
        routes=int(metrics.total("edgewise_gateway_routes")),
        ports=len((await client.list(PortClaim)).items),
    )


def _held(pid: int) -> Held:
    kinds = descriptors(pid)
    return Held(round(rss_mb(pid), 1), sum(kinds.values()), kinds)


async def weight_at_rest(
    weigh: Callable[[], Awaitable[Weight]],
    collect: Callable[[], Awaitable[None]],
    *,
    settle_seconds: float,
    idle_seconds: float,
) -> Weight:
    """The gateway hears from the API server that the last sessions went, and may have lost its
    watch just then. Routes that are there after all that time stay for ever."""
    end = time.monotonic() + settle_seconds
    while (await weigh()).routes and time.monotonic() < end:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(AGAIN_SECONDS)
    await asyncio.sleep(idle_seconds)
    await collect()
    return await weigh()


def growth(before: Weight, after: Weight) -> dict[str, Any]:
    """Memory as a ratio, everything else as a difference; `kinds` are the descriptors that are
    more or fewer."""
    both = [name for name in after.programs if name in before.programs]
    return {
        "memory": {
            name: round(after.programs[name].memory_mb / before.programs[name].memory_mb, 3)
            for name in both
            if before.programs[name].memory_mb
        },
        "descriptors": {
            name: after.programs[name].descriptors - before.programs[name].descriptors
            for name in both
        },
        "kinds": {
            name: changed
            for name in both
            if (changed := _changed(before.programs[name].kinds, after.programs[name].kinds))
        },
        "routes": after.routes - before.routes,
        "ports": after.ports - before.ports,
    }


def _changed(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {
        kind: more
        for kind in sorted({*before, *after})
        if (more := after.get(kind, 0) - before.get(kind, 0))
    }
