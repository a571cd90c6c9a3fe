"""What other hands do to a target in the middle of a search: nothing falls below R, and it ends."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

from edgewise.api.placement import LatencyPlacement
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.core import Pod
from edgewise.runtime.caching.cache import controlling_owner
from edgewise.testing.eventually import eventually
from tests.e2e.placement.stage import Stage

RTTS = (200, 150, 100, 50, 25, 5)


def rtts(stage: Stage) -> dict[str, float]:
    return dict(zip(stage.nodes, RTTS, strict=True))


async def sentinel_ready(stage: Stage) -> LatencyPlacement:
    return await stage.until(
        "web", lambda found: any(each.ready_at for each in found.status.sentinels)
    )


async def kubectl(stage: Stage, *arguments: str) -> str:
    program = [stage.cluster.program("kubectl"), f"--kubeconfig={stage.cluster.kubeconfig}"]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*program, *arguments], capture_output=True, text=True, timeout=90, check=False
        )

    done = await asyncio.to_thread(run)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def mark_ready(stage: Stage, pod: Pod, *, ready: bool) -> None:
    """As a kubelet does whose probe fails; a simulated node leaves it so."""
    status = "True" if ready else "False"
    condition = {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    body = {"status": {"conditions": [condition]}}
    name = pod.metadata.name
    await stage.client.patch(Pod, name, stage.namespace, body=body, subresource="status")


async def test_hpa_scales_up_in_the_middle(stage: Stage) -> None:
    """The real one: below its least it needs no metrics."""
    async with stage.reports(), stage.operator(webhooks=False):
        await stage.deploy("web", replicas=2)
        await stage.place("web", sentinels=1)
        async with stage.users("web", rtts(stage)) as users, stage.watching("web"):
            await sentinel_ready(stage)
            users.quiet = True  # the search waits for it
            target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
            scaler: dict[str, Any] = {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "web", "namespace": stage.namespace},
                "spec": {
                    "minReplicas": 3,
                    "maxReplicas": 4,
                    "scaleTargetRef": target,
                    "metrics": [
                        {
                            "type": "Resource",
                            "resource": {
                                "name": "cpu",
                                "target": {"type": "Utilization", "averageUtilization": 50},
                            },
                        }
                    ],
                },
            }
            await stage.client.apply(scaler)
            await stage.until_ready("web", 3)
            assert (await stage.placement("web")).status.search.ended_at is None
            users.quiet = False
            await stage.ended("web")
            assert len(await stage.held("web")) == 3
            await stage.nothing_is_left("web")
        found = await stage.client.get(Deployment, "web", stage.namespace)
        assert found.spec["replicas"] == 3
    assert stage.least_ready >= 2


async def test_a_node_with_a_sentinel_is_drained_beside_a_budget(stage: Stage) -> None:
    """Without --force: the sentinel has a controller, and the budget can be computed with it."""
    async with stage.reports(), stage.operator(webhooks=False):
        await stage.deploy("web", replicas=2)
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": stage.namespace},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        await stage.client.apply(budget)
        await stage.place("web", sentinels=1)
        async with stage.users("web", rtts(stage)) as users, stage.watching("web"):
            found = await sentinel_ready(stage)
            users.quiet = True  # or it may be the replica before it is drained
            (sentinel,) = found.status.sentinels
            await kubectl(stage, "drain", sentinel.node, "--ignore-daemonsets", "--timeout=60s")
            users.quiet = False
            found = await stage.ended("web")
            assert sentinel.node not in await stage.held("web")
            assert len(await stage.held("web")) == 2
            await stage.nothing_is_left("web")
    assert stage.least_ready >= 2


async def test_kubectl_scales_the_sentinels_and_never_the_target(stage: Stage) -> None:
    await stage.deploy("web")
    await stage.place("web", sentinels=1)
    within = f"--namespace={stage.namespace}"
    await kubectl(stage, "scale", "latencyplacement/web", "--replicas=3", within)
    assert (await stage.placement("web")).spec.sentinels == 3
    assert (await stage.client.get(Deployment, "web", stage.namespace)).spec["replicas"] == 1


async def test_a_replica_that_is_not_ready_at_the_decision_is_waited_for(stage: Stage) -> None:
    """A ReplicaSet with one pod too many deletes unready ones first, whatever they cost."""
    async with stage.reports(), stage.operator(webhooks=False):
        await stage.deploy("web", replicas=2)
        await stage.place("web", sentinels=1)
        async with stage.users("web", rtts(stage)):
            await sentinel_ready(stage)
            before = await stage.replicas("web")
            moves = (await stage.placement("web")).status.moves
            await mark_ready(stage, before[0], ready=False)
            await stage.until("web", lambda one: "all replicas to be ready" in one.status.message)
            await asyncio.sleep(3)
            now = await stage.replicas("web")
            assert {pod.metadata.uid for pod in now} == {pod.metadata.uid for pod in before}
            assert (await stage.placement("web")).status.moves == moves
            await mark_ready(stage, before[0], ready=True)
            await stage.ended("web")
            assert await stage.held("web") == sorted(stage.nodes[4:])
            await stage.nothing_is_left("web")


async def test_pods_without_a_grace_period_are_gone_at_once_and_nothing_is_lost(
    stage: Stage,
) -> None:
    grace = {"terminationGracePeriodSeconds": 0}
    async with stage.reports(), stage.operator(webhooks=False):
        await stage.deploy("web", on=stage.nodes[0], pod=grace)
        await stage.place("web", sentinels=2)
        async with stage.users("web", rtts(stage)), stage.watching("web"):
            await stage.ended("web")
            assert await stage.held("web") == [stage.nodes[5]]
            await stage.nothing_is_left("web")
    assert stage.least_ready >= 1


async def test_a_grace_period_of_nothing_grows_by_the_pause(stage: Stage) -> None:
    """A sleep beyond the grace period makes a pod invalid: the API server takes this one."""
    async with stage.operator():
        await stage.deploy("web", pod={"terminationGracePeriodSeconds": 0})
        await stage.place("web", drainSeconds=2)
        await stage.client.patch(Deployment, "web", stage.namespace, body={"spec": {"replicas": 2}})
        await stage.until_ready("web", 2)
        graces = [pod.spec["terminationGracePeriodSeconds"] for pod in await stage.replicas("web")]
        assert sorted(graces) == [0, 2]


async def test_while_admission_is_away_pods_start_and_are_named(stage: Stage) -> None:
    """Its configuration stays, and nobody answers: not one pod is kept from starting."""
    async with stage.operator():
        await stage.deploy("web", on=stage.nodes[0])
        await stage.place("web", sentinels=1, drainSeconds=2)
    await stage.cordon(*(node for node in stage.nodes if node != stage.nodes[1]))
    await stage.client.patch(Deployment, "web", stage.namespace, body={"spec": {"replicas": 2}})
    await stage.until_ready("web", 2)
    await stage.uncordon()
    async with stage.reports(), stage.operator(webhooks=False):
        async with stage.users("web", rtts(stage)):
            found = await stage.until("web", lambda one: bool(one.status.sentinels))
            (draining,) = [each for each in found.status.conditions if each.type == "Draining"]
            assert draining.status == "False"
            for pod in await stage.replicas("web"):
                assert pod.metadata.name in draining.message
            # Those of the operator itself wait all the same.
            sentinels = [
                pod
                for pod in await stage.pods("web")
                if controlling_owner(pod) == found.metadata.uid
            ]
            assert all(pod.spec["containers"][0]["lifecycle"]["preStop"] for pod in sentinels)
            await stage.ended("web")

            async def best() -> None:
                assert await stage.held("web") == sorted(stage.nodes[4:])

            await eventually(best, within=10)
            found = await stage.placement("web")
        (draining,) = [each for each in found.status.conditions if each.type == "Draining"]
        assert draining.status == "True"
