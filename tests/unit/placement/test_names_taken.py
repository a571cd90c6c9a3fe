"""A pod that has the name of a sentinel, and is none, is not asked for again and again."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.api.placement import LatencyPlacement, LatencyPlacementSpec, Sentinel, Target
from edgewise.kube.errors import AlreadyExists
from edgewise.kube.kinds.core import Pod
from edgewise.placement.apply import Writer
from edgewise.placement.observed import Observed
from edgewise.placement.plan import Plan
from edgewise.runtime.caching.cache import Cache


class Server:
    def __init__(self, there: Pod) -> None:
        self._there = there

    async def create(self, _: Pod) -> None:
        raise AlreadyExists(409, "AlreadyExists", "there is one")

    async def get(self, *_: Any) -> Pod:
        return self._there


@pytest.mark.parametrize("ours", [True, False])
async def test_whose_pod_it_is_decides(ours: bool) -> None:
    spec = LatencyPlacementSpec(target=Target(name="web"))
    placement = LatencyPlacement.named("web", "shop", spec=spec)
    placement.metadata.uid = "uid-web"
    there = Pod.named("web-s0", "shop")
    if ours:
        there.metadata.owner_references = [placement.owner_reference()]
    api: Any = Server(there)
    pods: Cache[Pod] = Cache(Pod)
    writer = Writer(api, pods, placement, {"spec": {"containers": [{"name": "web"}]}})
    plan = Plan(
        status=placement.status,
        create=(Sentinel(name="web-s0", nodes=["n1"]),),
        cost=(),
        promote=(),
        uncost=(),
        delete=(),
        told=(),
        deadline=None,
    )
    await writer.carry_out(plan, Observed(placement=placement, target=None))
    assert {name: each.taken for name, each in writer.refused.items()} == (
        {} if ours else {"web-s0": True}
    )
