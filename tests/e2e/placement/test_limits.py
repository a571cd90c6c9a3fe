"""Nodes and namespaces that take no more, and a placement that goes in the middle of a move."""

from __future__ import annotations

from typing import Any

from edgewise.api.placement import COST_ANNOTATION, SENTINEL_ANNOTATION, LatencyPlacement
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.core import Node, Pod
from edgewise.kube.objects import Kind, OpenObject
from edgewise.placement.apply import COST
from edgewise.testing.eventually import eventually
from tests.e2e.placement.stage import Stage

RTTS = (200, 150, 100, 50, 25, 5)


def rtts(stage: Stage) -> dict[str, float]:
    return dict(zip(stage.nodes, RTTS, strict=True))


class Quota(OpenObject):
    KIND = Kind("", "v1", "ResourceQuota", "resourcequotas")


async def used_up(stage: Stage) -> bool:
    found = await stage.client.get(Quota, "pods", stage.namespace)
    return bool(found.status.get("used", {}).get("pods") == "1")


async def test_a_quota_that_is_used_up_is_said_and_nothing_moves(stage: Stage) -> None:
    async with stage.reports(), stage.operator(webhooks=False):
        await stage.deploy("web", on=stage.nodes[0])
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "pods", "namespace": stage.namespace},
            "spec": {"hard": {"pods": "1"}},
        }
        await stage.client.apply(quota)
        await eventually(lambda: used_up(stage), within=30)
        await stage.place("web", sentinels=2)
        async with stage.users("web", rtts(stage)), stage.watching("web"):
            found = await stage.ended("web")
        assert {each.why for each in found.status.visited} == {"NoQuota"}
        assert {each.node for each in found.status.visited} == set(stage.nodes[1:])
        assert await stage.held("web") == [stage.nodes[0]]
    assert stage.most_pods == 1


async def test_a_node_without_room_is_passed_by_and_the_search_goes_on(stage: Stage) -> None:
    """kube-scheduler says so of the sentinel that only this node is left for."""
    full, next_best = stage.nodes[5], stage.nodes[4]
    cpus = (await stage.client.get(Node, full)).status.allocatable["cpu"]
    filler = {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpus}}}
    spec = {"nodeName": full, "containers": [filler]}
    await stage.client.create(Pod.named("filler", stage.namespace, spec=spec))
    async with stage.reports(), stage.operator(webhooks=False):
        await stage.deploy("web", on=stage.nodes[0])
        await stage.place("web", sentinels=2)
        async with stage.users("web", rtts(stage)), stage.watching("web"):
            found = await stage.ended("web")
            assert {each.node: each.why for each in found.status.visited}[full] == "NoRoom"
            assert await stage.held("web") == [next_best]
            await stage.nothing_is_left("web")
    assert stage.least_ready >= 1


async def test_a_placement_that_goes_while_no_operator_runs_leaves_nothing_on_its_pods(
    stage: Stage,
) -> None:
    """It is deleted between a cost and a promotion, or after one that nobody adopts."""
    await stage.deploy("web")
    await stage.place("web")
    (replica,) = await stage.replicas("web")
    placement = await stage.placement("web")
    cost = {COST: "-1000", COST_ANNOTATION: "7"}
    body: dict[str, Any] = {"metadata": {"annotations": cost}}
    await stage.client.patch(Pod, replica.metadata.name, stage.namespace, body=body)
    spec = {"containers": [{"name": "web", "image": "web"}]}
    orphan = Pod.named("orphan", stage.namespace, spec=spec)
    orphan.metadata.labels = {**replica.metadata.labels, "app": "", "pod-template-hash": "gone"}
    orphan.metadata.annotations = {SENTINEL_ANNOTATION: placement.metadata.uid}
    await stage.client.create(orphan)
    await stage.client.delete(LatencyPlacement, "web", stage.namespace)
    async with stage.operator(webhooks=False):

        async def nothing_is_left() -> None:
            pods = await stage.pods("web")
            assert [each.metadata.name for each in pods if not each.metadata.deleting] == [
                replica.metadata.name
            ]
            (left,) = [each for each in pods if not each.metadata.deleting]
            assert COST_ANNOTATION not in left.metadata.annotations
            assert left.metadata.annotations[COST] == "7"

        await eventually(nothing_is_left, within=30)
    found = await stage.client.get(Deployment, "web", stage.namespace)
    assert found.status.ready_replicas == 1
