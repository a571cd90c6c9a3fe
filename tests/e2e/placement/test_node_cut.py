"""A real node that is cut off while it has the sentinel."""

from __future__ import annotations

import pytest

from edgewise.kube.kinds.core import Node
from edgewise.local import faults
from edgewise.testing.eventually import eventually
from tests.e2e.local.workloads import web_spec
from tests.e2e.placement.stage import Stage

SHARES = "nodes"


@pytest.mark.root
async def test_its_sentinel_goes_and_the_search_ends_without_it(real: Stage) -> None:
    here, cut, *others = real.nodes
    async with real.reports(), real.operator(webhooks=False):
        await real.deploy("web", on=here, pod=web_spec())
        await real.cordon(*others)
        # Long enough for the node to count as lost before the sentinel counts as unheard.
        await real.place("web", observation="6s")
        async with real.users("web", {here: 20.0}), real.watching("web"):
            await real.until(
                "web", lambda found: any(each.ready_at for each in found.status.sentinels)
            )
            faults.cut(real.cluster, cut)
            try:
                found = await real.ended("web")
            finally:
                faults.heal(real.cluster, cut)
            assert {each.node: each.why for each in found.status.visited} == {cut: "NotReady"}
            assert await real.held("web") == [here]
            await real.nothing_is_left("web")

    async def back() -> bool:
        node = await real.client.get(Node, cut)
        return any(
            each.type == "Ready" and each.status == "True" for each in node.status.conditions
        )

    await eventually(back, within=60)
    assert real.least_ready >= 1
