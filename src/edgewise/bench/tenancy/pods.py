"""Pods in many tenants at once, beside plain namespaces with the same quota.

What is measured is how long it takes until they are objects: nothing schedules them, because each
has a gate, so that only what admits them is compared.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import Any

from edgewise.api.tenancy import Share, TenantResourceQuota, TenantResourceQuotaSpec
from edgewise.bench.tenancy.bare import LABELS, OWNER, bare_namespace
from edgewise.bench.tenancy.stage import NotMeasured, Stage, new_name
from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError
from edgewise.kube.kinds.core import (
    Pod,
    ResourceQuota,
    ResourceQuotaSpec,
)
from edgewise.tenancy.names import KEPT
from edgewise.tenancy.tree.manifests import limits_of
from edgewise.tenancy.tree.seen import Branch

_QUOTA = {"pods": "100000", "cpu": "100000"}
_POD = {
    "schedulingGates": [{"name": "bench.edgewise.dev/measured"}],
    "containers": [{"name": "main", "image": "none"}],
}
_READY_WITHIN = 120.0
# A round goes back and forth between tenants and plain namespaces, with so many pods for each of
# them at least, and so often at most.
_AT_LEAST_EACH, _PARTS = 5, 16


async def pods_over(stage: Stage, counts: list[int], over: int, rounds: int) -> dict[str, Any]:
    tenants = [f"{new_name()}-{number}" for number in range(over)]
    plain = [f"{new_name()}-{number}" for number in range(over)]
    await asyncio.gather(
        *(_tenant(stage, name) for name in tenants), *(_plain(stage, name) for name in plain)
    )
    async with stage.as_user(OWNER.name) as owner:
        await asyncio.gather(*(_ready(owner, name) for name in (*tenants, *plain)))
        await _together(owner, tenants, over)  # connections, caches and the like
        await _together(owner, plain, over)
        return {
            str(count): await _measured(stage, owner, (tenants, plain), count, rounds)
            for count in counts
        }


async def _measured(
    stage: Stage, owner: Client, where: tuple[list[str], list[str]], count: int, rounds: int
) -> dict[str, Any]:
    pairs: list[tuple[float, float]] = []
    for number in range(rounds):
        took = [0.0, 0.0]
        for turn, part in enumerate(parts(count, len(where[0])), number):
            # Who comes second finds a larger etcd, and the API server's garbage of who came first.
            for each in (0, 1) if turn % 2 == 0 else (1, 0):
                took[each] += await _together(owner, where[each], part)
        pairs.append((took[0], took[1]))
        stage.say(f"{count} pods, round {number + 1}: {took[0]:.2f} s, bare {took[1]:.2f} s")
    return {
        "pods_s": round(median(each[0] for each in pairs), 3),
        "bare_pods_s": round(median(each[1] for each in pairs), 3),
        "ratio": round(median(each[0] / each[1] for each in pairs), 3),
        "rounds": rounds,
    }


def parts(count: int, over: int) -> list[int]:
    """Of nearly the same size, and an even number of them: as often first as second."""
    many = max(2, min(_PARTS, count // (_AT_LEAST_EACH * over)) // 2 * 2)
    return [count * (place + 1) // many - count * place // many for place in range(many)]


async def _together(owner: Client, namespaces: list[str], count: int) -> float:
    """Each namespace gets its share, one pod after the other."""
    prefix, begun = new_name(), time.monotonic()

    async def share(place: int, namespace: str) -> None:
        for number in range(place, count, len(namespaces)):
            await owner.create(Pod.named(f"{prefix}-{number}", namespace, spec=_POD))

    await asyncio.gather(*(share(place, each) for place, each in enumerate(namespaces)))
    return time.monotonic() - begun


async def _tenant(stage: Stage, name: str) -> None:
    claims = {"all": Share(resources={**_QUOTA})}
    spec = TenantResourceQuotaSpec(claims=claims)
    await stage.client.create(TenantResourceQuota.named(name, spec=spec))
    await stage.tenant(name)


async def _plain(stage: Stage, name: str) -> None:
    """With the same objects in it, but those that make it a tenant's."""
    await bare_namespace(stage.client, name)
    branch = Branch(name=name, path=(), tenant=None)
    limits = limits_of(branch, _QUOTA)
    limits.metadata.labels = LABELS
    await stage.client.create(limits)
    quota = ResourceQuota.named(KEPT, name, spec=ResourceQuotaSpec(hard={**_QUOTA}))
    await stage.client.create(quota)


async def _ready(owner: Client, namespace: str) -> None:
    """Until the account for pods is there, and the quota is counted."""
    deadline = time.monotonic() + _READY_WITHIN
    while True:
        try:
            await owner.create(Pod.named("first", namespace, spec=_POD), dry_run=True)
            return
        except ApiError as error:
            if time.monotonic() > deadline:
                raise NotMeasured(f"no pod comes into {namespace}: {error}") from error
        await asyncio.sleep(0.1)
