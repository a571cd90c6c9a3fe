"""Warm pods that do not start, fail or are refused: who is told, and who waits for nothing."""

from __future__ import annotations

import pytest

from edgewise.kube.conditions import Condition
from edgewise.kube.kinds.core import Pod
from tests.unit.sessions.test_trouble import notes, with_image
from tests.unit.sessions.world import Operator, World, pod_template


@pytest.fixture
def world() -> World:
    return World()


def condition(world: World, type_: str) -> Condition:
    found = world.get_template().status.conditions
    return next(each for each in found if each.type == type_)


async def test_warm_pods_that_do_not_start_say_why(world: World) -> None:
    world.lazy_images = {"broken"}
    world.template(podTemplates=with_image("broken", warmPods=2))
    operator = Operator(world)
    await world.settle(operator)
    for pod in world.pods():
        why = {"reason": "ImagePullBackOff", "message": "broken is not there"}
        world.set_containers(pod, {"name": "main", "state": {"waiting": why}})
    await world.advance(3, operator)
    warm = condition(world, "WarmPodsReady")
    assert (warm.status, warm.reason) == ("False", "ImagePullBackOff")
    assert "broken is not there" in warm.message
    assert condition(world, "Degraded").status == "True"
    assert len(notes(operator, "PodsNotStarting")) == 1


async def test_warm_pods_that_never_become_ready_are_replaced_but_not_in_a_loop(
    world: World,
) -> None:
    world.lazy_images = {"broken"}
    world.template(podTemplates=with_image("broken", warmPods=1), readySeconds=5)
    operator = Operator(world)
    await world.settle(operator)
    first = set(world.pods())
    await world.advance(7, operator)
    assert not first & world.pods().keys()
    await world.advance(100, operator)
    assert world.get_template().status.next <= 12
    assert condition(world, "Degraded").status == "True"
    world.edit_template(podTemplates=with_image("mended", warmPods=1))
    await world.advance(100, operator)
    world.check()
    assert condition(world, "Degraded").status == "False"


async def test_warm_pods_of_a_mended_template_do_not_wait_for_those_that_failed(
    world: World,
) -> None:
    world.lazy_images = {"broken"}
    world.template(podTemplates=with_image("broken", warmPods=1), readySeconds=5)
    operator = Operator(world)
    await world.advance(300, operator)
    world.edit_template(podTemplates=with_image("mended", warmPods=1))
    await world.advance(2, operator)
    world.check()
    assert condition(world, "WarmPodsReady").status == "True"
    assert condition(world, "Degraded").status == "False"
    assert not any(each.rests for each in operator.templates._history.values())


async def test_warm_pods_that_fail_keep_no_other_pod_template_from_its_own(world: World) -> None:
    world.lazy_images = {"broken"}
    broken = with_image("broken", name="broken", warmPods=1)
    world.template(podTemplates=[pod_template(warmPods=1), *broken], readySeconds=5)
    operator = Operator(world)
    await world.advance(300, operator)
    (warm,) = [pod.metadata.name for pod in world.pods().values() if pod.ready]
    world.delete(Pod, warm, force=True)
    await world.advance(3, operator)
    assert [pod.metadata.name for pod in world.pods().values() if pod.ready]
    assert condition(world, "Degraded").status == "True"


async def test_a_warm_pod_that_crashes_is_given_to_nobody(world: World) -> None:
    world.template(podTemplates=[pod_template(warmPods=1)])
    operator = Operator(world)
    await world.settle(operator)
    (warm,) = world.pods()
    world.crash_pod(warm)
    world.session(ann=True)
    await world.advance(5, operator)
    world.check()
    assert world.pod_of("ann") != warm
    assert warm not in world.pods()


async def test_warm_pods_that_are_refused_say_so(world: World) -> None:
    world.quota(1)
    world.template(podTemplates=[pod_template(warmPods=3)])
    operator = Operator(world)
    await world.advance(25, operator)
    assert condition(world, "Degraded").reason == "PodsRefused"
    assert "exceeded quota" in condition(world, "WarmPodsReady").message
    world.quota(9)
    await world.advance(30, operator)
    world.check()
    assert condition(world, "Degraded").status == "False"
