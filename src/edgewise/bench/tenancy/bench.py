"""One run: the measurements that were asked for, in one cluster."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewise.api.installation import install
from edgewise.bench.tenancy import bare
from edgewise.bench.tenancy.crowd import crowd
from edgewise.bench.tenancy.establish import tenants_together
from edgewise.bench.tenancy.pods import pods_over
from edgewise.bench.tenancy.stage import Stage, timed_together
from edgewise.bench.tenancy.tree import growing_tree


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    tenants: tuple[int, ...] = ()
    rate: float = 0.0  # 0: all at once
    pods: tuple[int, ...] = ()
    over: int = 32
    tree: int = 0
    rounds: int = 5


async def measure(stage: Stage, asked: Asked) -> dict[str, Any]:
    await install(stage.client, bare.KINDS)
    figures: dict[str, Any] = {}
    async with stage.watching():
        # Connections, caches and the like.
        await timed_together(4, stage.tenant)
        await timed_together(4, lambda name: bare.bare_tenant(stage.client, name))
        await stage.at_rest()
        if asked.rate:
            figures["crowd"] = {
                str(count): await crowd(stage, count, asked.rate) for count in asked.tenants
            }
        elif asked.tenants:
            figures["tenants"] = {
                str(count): await tenants_together(stage, count, asked.rounds)
                for count in asked.tenants
            }
        if asked.pods:
            figures["pods"] = await pods_over(stage, [*asked.pods], asked.over, asked.rounds)
        if asked.tree:
            figures["tree"] = await growing_tree(stage, asked.tree)
    return figures
