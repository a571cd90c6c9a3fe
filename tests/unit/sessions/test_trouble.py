"""Sessions beside trouble: what is refused, what never starts, what crashes, and who waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edgewise.api.sessions import ClientStatus, Session
from edgewise.kube.conditions import Condition
from edgewise.kube.errors import ApiError, Conflict, ServerError, TooManyRequests
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Key, Kind
from tests.unit.sessions.world import Operator, World, pod_template


@pytest.fixture
def world() -> World:
    return World()


async def started(world: World, *names: str, **spec: Any) -> Operator:
    world.template(**spec)
    world.session(**dict.fromkeys(names, True))
    operator = Operator(world)
    await world.settle(operator)
    return operator


def record(world: World, client: str, session: str = "s") -> ClientStatus:
    return world.get(session).status.clients[client]


def degraded(world: World) -> Condition:
    return next(each for each in world.get().status.conditions if each.type == "Degraded")


def notes(operator: Operator, reason: str) -> list[str]:
    said = operator.events._said.values()
    return [each.event.note for each in said if each.event.reason == reason]


def with_image(image: str, **fields: Any) -> list[dict[str, Any]]:
    spec = {"containers": [{"name": "main", "image": image}]}
    return [pod_template(template={"spec": spec}, **fields)]


# Refused by the API server -------------------------------------------------------------


async def test_whoever_waits_for_room_delays_no_recovery(world: World) -> None:
    world.quota(4)
    operator = await started(world, "ann", "bob", "cat", "dan")
    world.check()
    world.clients(eve=True, fay=True)
    await world.advance(20, operator)
    assert (record(world, "eve").ready, record(world, "fay").ready) == (False, False)
    world.delete(Pod, world.pod_of("ann"))
    await world.advance(1, operator)
    assert record(world, "ann").ready
    assert not record(world, "eve").ready


async def test_nor_where_others_were_refused_just_now(world: World) -> None:
    """Those wait for seconds before they are asked for again; who lost a pod does not."""
    world.quota(4)
    operator = await started(world, "ann", "bob", "cat", "dan")
    world.clients(eve=True)
    for _ in range(400):
        await world.advance(0.25, operator)
        if any(refusal.count >= 6 for refusal in world.get().status.refusals.values()):
            break
    else:
        pytest.fail("eve was not refused often enough")
    world.delete(Pod, world.pod_of("ann"))
    await world.advance(1, operator)
    assert record(world, "ann").ready
    assert not record(world, "eve").ready


async def test_it_is_said_in_the_words_of_the_api_server_and_once(world: World) -> None:
    world.quota(1)
    operator = await started(world, "ann")
    world.clients(bob=True)
    await world.advance(120, operator)
    waiting = record(world, "bob")
    words = "exceeded quota: quota, requested: pods=1, used: pods=1, limited: pods=1"
    assert waiting.reason == "PodsRefused"
    assert waiting.message.endswith(words)
    assert (degraded(world).status, degraded(world).reason) == ("True", "PodsRefused")
    assert words in degraded(world).message
    assert len(notes(operator, "PodsRefused")) == 1
    assert not record(world, "bob").failures
    assert world.get().status.recoveries == 0


async def test_a_refused_pod_is_asked_for_ever_more_seldom(world: World) -> None:
    world.quota(1)
    operator = await started(world, "ann")
    world.clients(**{f"c{number:02}": True for number in range(20)})
    await world.settle(operator)
    asked = 0

    def count(verb: str, kind: str, _: Key, done: bool) -> None:
        nonlocal asked
        asked += (verb, kind, done) == ("create", "Pod", False)

    operator.client.watcher = count
    await world.advance(60, operator)
    assert 2 <= asked <= 8


@pytest.mark.parametrize("how", ["a pod goes", "the quota is raised"])
async def test_a_wait_for_room_ends_when(how: str, world: World) -> None:
    world.quota(1)
    operator = await started(world, "ann")
    world.clients(bob=True)
    await world.advance(100, operator)
    assert not record(world, "bob").ready
    if how == "a pod goes":
        world.clients(ann=None)
    else:
        world.quota(2)
    await world.advance(2.5, operator)
    world.check()
    assert record(world, "bob").ready
    assert not world.get().status.refusals


async def test_room_for_all_is_used_by_all(world: World) -> None:
    world.quota(1)
    operator = await started(world, "ann")
    world.clients(**{f"c{number:02}": True for number in range(20)})
    await world.advance(10, operator)
    world.quota(50)
    await world.advance(3, operator)
    world.check()
    assert not world.get().status.refusals


async def test_recovery_goes_before_a_return_and_that_before_a_join(world: World) -> None:
    world.quota(3)
    operator = await started(world, "rob", "sue", "tim", timeoutSeconds=600)
    world.clients(sue=False)
    await world.settle(operator)
    lost = [world.pod_of(client) for client in ("rob", "sue", "tim")]
    world.quota(0)
    world.clients(amy=True)
    for pod in lost:
        world.delete(Pod, pod, force=True)
    await world.advance(1, operator)
    world.clients(sue=True)
    await world.advance(5, operator)
    order = []
    for room in range(1, 5):
        world.quota(room)
        await world.advance(60, operator)
        order.append({c for c in ("rob", "sue", "tim", "amy") if record(world, c).ready})
    world.check()
    assert order == [order[0], {"rob", "tim"}, {"rob", "tim", "sue"}, {"rob", "tim", "sue", "amy"}]
    assert order[0] < {"rob", "tim"}


async def test_in_one_plan_too_the_pod_goes_to_whoever_lost_one(world: World) -> None:
    world.quota(2)
    operator = await started(world, "yve", "zoe")
    for client in ("yve", "zoe"):
        world.delete(Pod, world.pod_of(client), force=True)
    world.nodes_work()
    world.clients(amy=True, bob=True)
    await world.advance(5, operator)
    assert [c for c in ("amy", "bob", "yve", "zoe") if record(world, c).ready] == ["yve", "zoe"]


async def test_a_newcomer_of_another_session_does_not_take_the_room_of_a_recovery(
    world: World,
) -> None:
    world.quota(1)
    operator = await started(world, "ann")
    world.session("other", bob=True)
    await world.advance(60, operator)
    assert not record(world, "bob", "other").ready
    world.quota_is_kept = False  # the controller is slow to notice that the pod is gone
    world.delete(Pod, world.pod_of("ann"), force=True)
    await world.advance(1, operator)
    assert not record(world, "ann").ready
    world.quota_is_kept = True
    await world.advance(5, operator)
    assert (record(world, "ann").ready, record(world, "bob", "other").ready) == (True, False)


DOWN = 'Internal error occurred: failed calling webhook "pods.example.com": connection refused'
NO = 'admission webhook "pods.example.com" denied the request: not today'
WEBHOOKS = {
    "a webhook that is down": ServerError(500, "InternalError", DOWN),
    "a webhook that says no with 429": TooManyRequests(429, "TooManyRequests", NO),
    "a webhook that says no with 409": Conflict(409, "Conflict", NO),
    "a webhook that says no with 503": ServerError(503, "", NO),
    "a code of its own": ApiError(418, "", NO),
}


@pytest.mark.parametrize("error", WEBHOOKS.values(), ids=WEBHOOKS.keys())
async def test_a_webhook_in_trouble_delays_nobody_who_needs_no_pod(
    error: ApiError, world: World
) -> None:
    operator = await started(world, "ann", "bob")
    world.store.admit = only_for("Pod", error)
    world.clients(eve=True)
    await world.advance(5, operator)
    waiting = record(world, "eve")
    assert (waiting.reason, str(error) in waiting.message) == ("PodsRefused", True)
    world.clients(bob=None)
    await world.settle(operator)
    assert "bob" not in world.get().status.clients
    world.store.admit = lambda *_: None
    await world.advance(31, operator)
    world.check()
    assert record(world, "eve").ready


def only_for(kind: str, error: ApiError) -> Callable[[Kind, dict[str, Any]], None]:
    def admit(asked: Kind, _: dict[str, Any]) -> None:
        if asked.kind == kind:
            raise error

    return admit


# Pods that fail ------------------------------------------------------------------------


async def test_a_container_that_crashes_again_and_again_is_not_left_to_the_kubelet(
    world: World,
) -> None:
    operator = await started(world, "ann")
    old = world.pod_of("ann")
    world.crash_pod(old)
    await world.settle(operator)
    world.check()
    assert world.pod_of("ann") != old
    assert world.get().status.recoveries == 1
    assert notes(operator, "Recovering") == [
        "a pod of main crashes (main: Error with code 3, again and again); "
        "its clients get another: ann"
    ]


async def test_pods_that_go_on_crashing_wait_ever_longer_and_say_why(world: World) -> None:
    operator = await started(world, "ann")
    gaps = []
    for _ in range(6):
        world.crash_pod(world.pod_of("ann"))
        began = world.now
        await world.settle(operator)
        while not record(world, "ann").ready:
            if not world.pod_of("ann"):
                waiting = record(world, "ann")
                assert (waiting.phase, waiting.reason) == ("Recovering", "CrashLoopBackOff")
                assert "main: Error with code 3" in waiting.message
                assert degraded(world).reason == "PodsFailing"
            await world.advance(0.5, operator)
        gaps.append(round(world.now - began))
        await world.advance(12, operator)
    assert gaps == [0, 1, 2, 4, 8, 16]
    assert world.get().status.recoveries == 6
    assert len(notes(operator, "Recovering")) == 1


async def test_a_neighbour_that_fails_delays_nobody(world: World) -> None:
    operator = await started(world, "ann", "bob")
    for _ in range(6):
        world.fail_pod(world.pod_of("bob"))
        await world.advance(40, operator)
    world.fail_pod(world.pod_of("bob"))
    await world.settle(operator)
    assert not record(world, "bob").pods
    world.delete(Pod, world.pod_of("ann"))
    world.clients(cat=True)
    await world.settle(operator)
    assert record(world, "ann").ready
    assert record(world, "cat").ready
    assert not record(world, "bob").pods


async def test_a_group_that_fails_delays_no_other_group(world: World) -> None:
    operator = await started(world, *"abcd", podTemplates=[pod_template(maxClients=2)])
    other = next(c for c in "bcd" if world.pod_of(c) != world.pod_of("a"))
    for _ in range(4):
        world.fail_pod(world.pod_of("a"))
        await world.advance(10, operator)
    world.fail_pod(world.pod_of("a"))
    await world.settle(operator)
    assert not record(world, "a").pods
    world.delete(Pod, world.pod_of(other))
    await world.settle(operator)
    assert record(world, other).ready


# Pods that never become ready ----------------------------------------------------------


@pytest.mark.parametrize("seats", [1, 4, 0])
async def test_a_pod_that_was_never_ready_is_replaced_when_its_template_is_mended(
    seats: int, world: World
) -> None:
    world.lazy_images = {"broken"}
    operator = await started(world, "ann", podTemplates=with_image("broken", maxClients=seats))
    dead = world.pod_of("ann")
    assert not record(world, "ann").ready
    world.edit_template(podTemplates=with_image("mended", maxClients=seats))
    world.clients(bob=True)
    await world.settle(operator)
    world.check()
    assert dead not in (world.pod_of("ann"), world.pod_of("bob"), *world.pods())


async def test_a_pod_of_an_old_revision_that_was_ready_stays(world: World) -> None:
    operator = await started(world, "ann", podTemplates=with_image("one"))
    old = world.pod_of("ann")
    world.set_pod(old, ready=False)
    world.edit_template(podTemplates=with_image("two"))
    await world.advance(100, operator)
    assert world.pod_of("ann") == old
    assert record(world, "ann").late


@pytest.mark.parametrize("seconds", [None, 5])
async def test_a_join_has_a_deadline(seconds: int | None, world: World) -> None:
    world.lazy_images = {"broken"}
    spec = {} if seconds is None else {"readySeconds": seconds}
    operator = await started(world, "ann", podTemplates=with_image("broken"), **spec)
    first = world.pod_of("ann")
    await world.advance((seconds or 60) - 1, operator)
    assert (world.pod_of("ann"), record(world, "ann").late) == (first, False)
    await world.advance(2, operator)
    assert world.pod_of("ann") not in ("", first)
    assert record(world, "ann").late
    assert first not in world.pods()
    assert world.get().status.recoveries == 1


async def test_the_deadline_of_a_join_survives_the_operator_and_its_pods(world: World) -> None:
    world.lazy_images = {"broken"}
    operator = await started(world, "ann", podTemplates=with_image("broken"))
    since = record(world, "ann").since
    await world.advance(40, operator)
    world.delete(Pod, world.pod_of("ann"))
    await world.advance(10, operator)
    second = world.pod_of("ann")
    successor = Operator(world)
    await world.advance(12, successor)
    assert (record(world, "ann").late, record(world, "ann").since) == (True, since)
    assert world.pod_of("ann") == second, "the second pod has had 22 of its 60 seconds"
    world.lazy_images = set()
    world.set_pod(second, ready=True)
    await world.settle(successor)
    world.check()
    now = record(world, "ann")
    assert (now.late, now.since, now.due, now.reason, now.message) == (False, None, None, "", "")


async def test_after_some_pods_that_never_became_ready_the_session_says_why(world: World) -> None:
    world.lazy_images = {"broken"}
    operator = await started(world, "ann", podTemplates=with_image("broken"), readySeconds=5)
    for _ in range(3):
        why = {"reason": "ErrImagePull", "message": "broken is not there"}
        while not world.pod_of("ann"):
            await world.advance(0.5, operator)
        world.set_containers(world.pod_of("ann"), {"name": "main", "state": {"waiting": why}})
        await world.advance(5.5, operator)
    waiting = record(world, "ann")
    assert waiting.reason == "ErrImagePull"
    assert "broken is not there" in waiting.message
    assert degraded(world).status == "True"
    assert "broken is not there" in degraded(world).message


async def test_a_pod_whose_container_does_not_come_back_is_replaced_in_time(world: World) -> None:
    operator = await started(world, "ann")
    old = world.pod_of("ann")
    why = {"reason": "ImagePullBackOff", "message": "nothing answers"}
    world.set_containers(old, {"name": "main", "state": {"waiting": why}})
    await world.advance(59, operator)
    waiting = record(world, "ann")
    assert (world.pod_of("ann"), waiting.phase, waiting.reason) == (
        old,
        "NotReady",
        "ImagePullBackOff",
    )
    await world.advance(2, operator)
    world.check()
    assert world.pod_of("ann") != old


async def test_an_idle_pod_that_its_node_cannot_run_is_given_to_nobody(world: World) -> None:
    operator = await started(world, "ann", reutilizeTimeoutSeconds=300)
    idle = world.pod_of("ann")
    world.clients(ann=None)
    await world.settle(operator)
    why = {"reason": "ImagePullBackOff", "message": "nothing answers"}
    world.set_containers(idle, {"name": "main", "state": {"waiting": why}})
    world.clients(bob=True)
    await world.settle(operator)
    assert world.pod_of("bob") not in ("", idle)


# Every wait has its reason -------------------------------------------------------------


async def test_a_probe_that_fails_is_named(world: World) -> None:
    world.lazy_images = {"deaf"}
    probe = {"tcpSocket": {"port": 9999}}
    spec = {"containers": [{"name": "main", "image": "deaf", "readinessProbe": probe}]}
    operator = await started(world, "ann", podTemplates=[pod_template(template={"spec": spec})])
    running = {"name": "main", "state": {"running": {}}}
    world.set_containers(world.pod_of("ann"), running)
    await world.advance(9, operator)
    assert record(world, "ann").reason == "", "a start that takes its time needs no words"
    await world.advance(2, operator)
    waiting = record(world, "ann")
    assert waiting.reason == "NotReady"
    assert "its readinessProbe does not succeed (TCP at port 9999)" in waiting.message
    await world.advance(51, operator)
    world.set_containers(world.pod_of("ann"), running)
    await world.advance(1, operator)
    assert record(world, "ann").late
    probe = "main: runs, but its readinessProbe does not succeed (TCP at port 9999)"
    assert record(world, "ann").message == f"{probe}; another one is starting"
    assert degraded(world).message == f"pods of main fail: {probe}"


async def test_without_its_template_a_client_says_what_it_waits_for(world: World) -> None:
    world.session(ann=True)
    operator = Operator(world)
    await world.settle(operator)
    assert record(world, "ann").reason == "TemplateNotFound"


async def test_a_silent_gateway_is_the_reason(world: World) -> None:
    world.gateways.silent = True
    world.template()
    world.session(ann=True)
    operator = Operator(world)
    await world.advance(5, operator)
    assert (record(world, "ann").reason, record(world, "ann").message) == (
        "GatewaySilent",
        "nobody answers",
    )


async def test_a_start_that_goes_well_costs_no_words(world: World) -> None:
    world.template()
    world.session(ann=True)
    operator = Operator(world)
    for state in ({"waiting": {"reason": "ContainerCreating"}}, {"running": {}}):
        operator.watch()
        await operator.work()
        pod = world.pod_of("ann")
        world.set_containers(pod, {"name": "main", "state": state})
    await world.settle(operator)
    world.check()
    written = [each for each in operator.client.writes if each[1] == Session.KIND.kind]
    assert len(written) == 2
