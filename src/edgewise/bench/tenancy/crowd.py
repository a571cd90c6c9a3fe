"""Thousands of tenants that come at a steady rate, and what they cost when they are there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from edgewise.bench.pacing import at_rate
from edgewise.bench.process_cost import cpu_seconds, rss_mb
from edgewise.bench.summary import percentile, ratio, summary
from edgewise.bench.tenancy.bare import OWNER, bare_tenant
from edgewise.bench.tenancy.stage import NotMeasured, Stage, new_name, timed_together
from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError
from edgewise.kube.kinds.core import ConfigMap, Namespace

FEW = 10
# Of so many tenants one comes with a twin from a plain client, which says what the cluster alone
# takes at that moment.
_ONE_IN = 10
_GETS, _PATCHES, _AT_ONCE = 2000, 200, 8
_QUIET = 3.0
_RESTART_WITHIN = 120.0
_WORK = {"controller": "TenantController"}


class Cost(dict[str, float]):
    """What the programs use at one moment, in MB."""

    @classmethod
    def now(cls, stage: Stage) -> Cost:
        return cls(
            operator=rss_mb(stage.platform.operator.pid),
            api_server=rss_mb(stage.pid("kube-apiserver")),
            etcd=rss_mb(stage.pid("etcd")),
        )


async def crowd(stage: Stage, count: int, rate: float) -> dict[str, Any]:
    _, few = await timed_together(FEW, stage.tenant)
    first = new_name()
    await stage.tenant(first)
    await stage.at_rest()
    async with stage.as_user(OWNER.name) as owner:
        await owner.create(ConfigMap.named("patched", first, data={"a": "0"}))
        before, owners_few = Cost.now(stage), await _owner(stage, owner, first)
        took, twins, failed = await _arrive(stage, count - FEW - 1, rate)
        await stage.at_rest(_RESTART_WITHIN)
        await asyncio.sleep(_QUIET)
        after, owners_many = Cost.now(stage), await _owner(stage, owner, first)
    restart_s, restart_writes = await _restart(stage, count)
    made = max(1, count - FEW - 1)
    # The operator does not see the twins; the others hold as much for them as for tenants.
    held = {"operator": made}
    grown = {
        name: 1024 * (after[name] - before[name]) / held.get(name, made + len(twins))
        for name in after
    }
    return {
        "tenants": count,
        "rate": rate,
        "failed": failed,
        "establish_s": summary([*few, *took]),
        **tenths(took),
        **{f"bare_{name}": value for name, value in tenths(twins).items()},
        "patch_ms": owners_many["patch_ms"],
        "patch_ms_at_10": owners_few["patch_ms"],
        "get_cpu_ms": owners_many["get_cpu_ms"],
        "get_cpu_ms_at_10": owners_few["get_cpu_ms"],
        "get_cpu_ratio": ratio(owners_many["get_cpu_ms"], owners_few["get_cpu_ms"]),
        "operator_mb": round(after["operator"], 1),
        "operator_kb_per_tenant": round(grown["operator"], 1),
        "apiserver_kb_per_tenant": round(grown["api_server"], 1),
        "etcd_kb_per_tenant": round(grown["etcd"], 1),
        "kb_per_tenant": round(sum(grown.values()), 1),
        "restart_s": round(restart_s, 2),
        "restart_writes": restart_writes,
    }


def tenths(took: list[float]) -> dict[str, float]:
    """In the order in which they came."""
    tenth = max(1, len(took) // 10)

    def p99(values: list[float]) -> float:
        return round(percentile(sorted(values), 0.99), 3)

    first, last = p99(took[:tenth]), p99(took[-tenth:])
    return {
        "p99_s": p99(took),
        "p99_first_tenth_s": first,
        "p99_last_tenth_s": last,
        "last_tenth_ratio": round(last / first, 2),
    }


async def _arrive(stage: Stage, count: int, rate: float) -> tuple[list[float], list[float], int]:
    """How long each took, and each twin; and how many failed."""
    took = [0.0] * count
    twins = [0.0] * (count // _ONE_IN)
    failed: list[str] = []
    prefix, loop = new_name(), asyncio.get_running_loop()
    begun = loop.time()

    async def timed(due: float, made: Awaitable[None], into: list[float], place: int) -> None:
        try:
            await made
        except (KubeError, NotMeasured, TimeoutError) as error:
            failed.append(str(error))
        # From the moment at which it was due: who measures late does not make it look better.
        into[place] = loop.time() - due

    async def one(number: int) -> None:
        due, name = begun + number / rate, f"{prefix}-{number}"
        ours = timed(due, stage.tenant(name), took, number)
        if number % _ONE_IN == 0 and number // _ONE_IN < len(twins):
            twin = bare_tenant(stage.client, f"{name}-bare")
            await asyncio.gather(ours, timed(due, twin, twins, number // _ONE_IN))
        else:
            await ours
        if (number + 1) % 1000 == 0:
            stage.say(f"{number + 1} tenants after {loop.time() - begun:.0f} s")

    await at_rate(rate, count, one)
    for error in failed[:5]:
        stage.say(f"failed: {error}")
    return took, twins, len(failed)


# What an owner notices ----------------------------------------------------------------------


async def _owner(stage: Stage, owner: Client, namespace: str) -> dict[str, float]:
    """A GET in processor time of the API server, less what it uses anyway; a patch in ms."""
    api_server = stage.pid("kube-apiserver")

    async def get(_: int) -> None:
        await owner.get(Namespace, namespace)

    async def patch(number: int) -> None:
        body = {"data": {"a": str(number)}}
        await owner.patch(ConfigMap, "patched", namespace, body=body)

    await _many(_GETS // 10, get)
    begun, used = time.monotonic(), cpu_seconds(api_server)
    await asyncio.sleep(_QUIET)
    idle = (cpu_seconds(api_server) - used) / (time.monotonic() - begun)
    begun, used = time.monotonic(), cpu_seconds(api_server)
    await _many(_GETS, get)
    took = time.monotonic() - begun
    cost = cpu_seconds(api_server) - used - idle * took
    patches = await _many(_PATCHES, patch, at_once=1)
    return {
        "get_cpu_ms": round(1000 * cost / _GETS, 3),
        "patch_ms": round(1000 * summary(patches)["p50"], 2),
    }


async def _many(
    count: int, act: Callable[[int], Awaitable[None]], at_once: int = _AT_ONCE
) -> list[float]:
    took: list[float] = []

    async def some(place: int) -> None:
        for number in range(place, count, at_once):
            begun = time.monotonic()
            await act(number)
            took.append(time.monotonic() - begun)

    await asyncio.gather(*(some(place) for place in range(at_once)))
    return took


async def _restart(stage: Stage, count: int) -> tuple[float, float]:
    """Until the new operator has looked at every tenant; and what it wrote."""
    await stage.platform.operator.stop()
    begun = time.monotonic()
    await stage.platform.operator.start(within=_RESTART_WITHIN)
    while True:
        metrics = await stage.metrics()
        looked = metrics.total("edgewise_reconciles_total", outcome="done", **_WORK)
        if looked >= count and metrics.idle:
            return time.monotonic() - begun, await stage.writes()
        if time.monotonic() - begun > _RESTART_WITHIN:
            raise NotMeasured(f"the new operator looked at {looked:.0f} of {count} tenants")
        await asyncio.sleep(0.2)
