"""What a session does, sentence by sentence, with both controllers at work."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Key
from edgewise.runtime.conditions import is_true
from edgewise.sessions.route_source import routes_of
from tests.unit.sessions.world import NAMESPACE, Operator, World, pod_template

UDP = {"name": "game", "port": 7777, "protocol": "UDP"}
HTTP = {"name": "http", "port": 8080}


@pytest.fixture
def world() -> World:
    return World()


async def started(world: World, *names: str, **spec: Any) -> Operator:
    """A session `s` of a template, with these clients, all ready."""
    world.template(**spec)
    world.session(**dict.fromkeys(names, True))
    operator = Operator(world)
    await world.settle(operator)
    world.check()
    return operator


# Joining -------------------------------------------------------------------------------


async def test_each_client_gets_a_pod_of_its_own_by_default(world: World) -> None:
    await started(world, "ann", "bob")
    assert world.pod_of("ann") != world.pod_of("bob")
    assert len(world.pods()) == 2


async def test_clients_fill_pods_before_another_is_made(world: World) -> None:
    operator = await started(world, "ann", "bob", "cat", podTemplates=[pod_template(maxClients=2)])
    assert len(world.pods()) == 2
    world.clients(dan=True)
    await world.settle(operator)
    world.check()
    assert len(world.pods()) == 2


async def test_the_fullest_pod_is_filled_first(world: World) -> None:
    parts = [pod_template(maxClients=3)]
    operator = await started(world, "a", "b", "c", "d", "e", podTemplates=parts)
    full, half = world.pod_of("a"), world.pod_of("e")
    assert full != half
    world.clients(a=None)  # 2 and 2: then one of them gets 3
    await world.settle(operator)
    world.clients(d=None)  # 2 and 1
    await world.settle(operator)
    world.clients(f=True)
    await world.settle(operator)
    assert world.pod_of("f") == full
    world.check()


async def test_with_zero_all_clients_share_one_pod(world: World) -> None:
    clients = [f"c{number}" for number in range(25)]
    await started(world, *clients, podTemplates=[pod_template(maxClients=0)])
    assert len(world.pods()) == 1


async def test_a_client_gets_a_seat_in_a_pod_of_each_template(world: World) -> None:
    parts = [
        pod_template("render", maxClients=1),
        pod_template("detect", maxClients=2),
        pod_template("chat", maxClients=0),
    ]
    await started(world, "ann", "bob", "cat", podTemplates=parts)
    assert len({world.pod_of(c, template="render") for c in ("ann", "bob", "cat")}) == 3
    assert len({world.pod_of(c, template="detect") for c in ("ann", "bob", "cat")}) == 2
    assert len({world.pod_of(c, template="chat") for c in ("ann", "bob", "cat")}) == 1
    endpoints = world.get().status.clients["ann"].endpoints
    assert endpoints.keys() == {"render", "detect", "chat"}


async def test_a_free_seat_costs_one_write(world: World) -> None:
    operator = await started(world, "ann", podTemplates=[pod_template(maxClients=2)])
    operator.client.writes.clear()
    world.clients(bob=True)
    await world.settle(operator)
    assert [(verb, kind) for verb, kind, _ in operator.client.writes] == [("patch", "Session")]


async def test_a_new_pod_costs_its_creation_and_two_writes(world: World) -> None:
    operator = await started(world, "ann")
    operator.client.writes.clear()
    world.clients(bob=True)
    await world.settle(operator)
    assert [(verb, kind) for verb, kind, _ in operator.client.writes] == [
        ("create", "Pod"),
        ("patch", "Session"),
        ("patch", "Session"),
    ]


async def test_a_client_is_not_ready_before_its_pod_is(world: World) -> None:
    world.template()
    world.session(ann=True)
    operator = Operator(world)
    await operator.work()
    record = world.get().status.clients["ann"]
    assert (record.ready, record.phase, record.endpoints) == (False, "Starting", {})


async def test_a_client_is_not_ready_before_a_gateway_has_acknowledged(world: World) -> None:
    world.gateways.silent = True
    world.template()
    world.session(ann=True)
    operator = Operator(world)
    await world.settle(operator)
    record = world.get().status.clients["ann"]
    assert (record.ready, record.endpoints) == (False, {})
    assert not is_true(world.get().status.conditions)
    world.gateways.silent = False
    await world.advance(2, operator)
    assert world.get().status.clients["ann"].ready
    world.check()


async def test_a_template_that_comes_later_is_waited_for(world: World) -> None:
    world.session(ann=True)
    operator = Operator(world)
    await world.settle(operator)
    conditions = {each.type: each for each in world.get().status.conditions}
    assert conditions["Degraded"].reason == "TemplateNotFound"
    assert not world.get().status.clients["ann"].ready
    world.template()
    await world.settle(operator)
    world.check()
    assert world.get().status.clients["ann"].ready


# Being lost, leaving, coming back ------------------------------------------------------


async def test_a_lost_client_that_comes_back_in_time_finds_everything_as_it_was(
    world: World,
) -> None:
    operator = await started(world, "ann", timeoutSeconds=10)
    before = world.get().status.clients["ann"]
    told = len(world.gateways.told)
    world.clients(ann=False)
    await world.advance(9, operator)
    assert world.phase_of("ann") == "Disconnected"
    world.clients(ann=True)
    await world.settle(operator)
    assert world.get().status.clients["ann"] == before
    assert len(world.gateways.told) == told
    world.check()


async def test_a_lost_client_that_stays_away_loses_its_pod_in_time(world: World) -> None:
    operator = await started(world, "ann", timeoutSeconds=10)
    world.clients(ann=False)
    await world.advance(9.9, operator)
    assert len(world.pods()) == 1
    await world.advance(0.2, operator)
    assert world.phase_of("ann") == "Expired"
    assert not world.pods()
    world.check()


async def test_an_expired_client_that_comes_back_joins_anew_at_the_same_address(
    world: World,
) -> None:
    operator = await started(world, "ann", timeoutSeconds=10)
    before = world.get().status.clients["ann"]
    world.clients(ann=False)
    await world.advance(11, operator)
    world.clients(ann=True)
    await world.settle(operator)
    world.check()
    after = world.get().status.clients["ann"]
    assert after.endpoints == before.endpoints
    assert after.pods != before.pods


async def test_without_timeouts_a_lost_client_loses_its_pod_at_once(world: World) -> None:
    operator = await started(world, "ann")
    world.clients(ann=False)
    await world.settle(operator)
    assert not world.pods()
    world.check()


async def test_who_leaves_goes_straight_to_reuse(world: World) -> None:
    operator = await started(world, "ann", timeoutSeconds=100, reutilizeTimeoutSeconds=20)
    world.clients(ann=None)
    await world.advance(19.9, operator)
    assert [each.phase for each in world.get().status.idle.values()] == ["WaitForReuse"]
    await world.advance(0.2, operator)
    assert not world.pods()
    world.check()


async def test_who_stays_away_goes_through_both_waits(world: World) -> None:
    operator = await started(world, "ann", timeoutSeconds=10, reutilizeTimeoutSeconds=20)
    world.clients(ann=False)
    await world.advance(10.1, operator)
    assert world.phase_of("ann") == "Expired"
    assert len(world.pods()) == 1
    await world.advance(20, operator)
    assert not world.pods()
    world.check()


async def test_a_pod_with_another_client_does_not_wait(world: World) -> None:
    operator = await started(world, "ann", "bob", podTemplates=[pod_template(maxClients=2)])
    world.clients(ann=None)
    await world.advance(5, operator)
    assert len(world.pods()) == 1
    assert not world.get().status.idle
    world.check()


async def test_deadlines_survive_the_operator(world: World) -> None:
    operator = await started(world, "ann", timeoutSeconds=10, reutilizeTimeoutSeconds=20)
    world.clients(ann=False)
    await world.settle(operator)
    world.now += 5
    operator = Operator(world)
    await world.advance(5.1, operator)
    assert world.phase_of("ann") == "Expired"
    world.now += 10
    operator = Operator(world)
    await world.advance(9.8, operator)
    assert len(world.pods()) == 1
    await world.advance(0.2, operator)
    assert not world.pods()


async def test_a_clock_that_is_set_back_makes_nobody_wait_more_than_once_more(
    world: World,
) -> None:
    operator = await started(world, "ann", timeoutSeconds=10)
    world.clients(ann=False)
    await world.settle(operator)
    world.now -= 3600
    operator = Operator(world)
    await world.advance(10.5, operator)
    assert world.phase_of("ann") == "Expired"


async def test_a_shortened_timeout_holds_for_those_who_wait(world: World) -> None:
    operator = await started(world, "ann", timeoutSeconds=3600)
    world.clients(ann=False)
    await world.settle(operator)
    world.edit_template(timeoutSeconds=10)
    await world.advance(11, operator)
    assert world.phase_of("ann") == "Expired"


# Reuse ---------------------------------------------------------------------------------


async def test_an_idle_pod_is_reused_before_a_new_one_is_made(world: World) -> None:
    operator = await started(world, "ann", reutilizeTimeoutSeconds=20)
    pod = world.pod_of("ann")
    world.clients(ann=None)
    await world.settle(operator)
    operator.client.writes.clear()
    world.clients(bob=True)
    await world.settle(operator)
    assert world.pod_of("bob") == pod
    assert len(operator.client.writes) == 1
    world.check()


async def test_with_never_a_pod_is_not_reused(world: World) -> None:
    operator = await started(world, "ann", reutilizeTimeoutSeconds=20, reuse="Never")
    world.clients(ann=None)
    await world.settle(operator)
    assert not world.pods()


async def test_another_session_does_not_get_the_pod_of_this_one(world: World) -> None:
    operator = await started(world, "ann", reutilizeTimeoutSeconds=20)
    world.clients(ann=None)
    await world.settle(operator)
    world.session("t", bob=True)
    await world.settle(operator)
    assert len(world.pods()) == 2
    world.check()


async def test_with_template_another_session_gets_the_pod(world: World) -> None:
    operator = await started(world, "ann", reutilizeTimeoutSeconds=20, reuse="Template")
    pod = world.pod_of("ann")
    world.clients(ann=None)
    await world.settle(operator)
    assert not world.get().status.pods
    world.session("t", bob=True)
    await world.settle(operator)
    assert world.pod_of("bob", "t") == pod
    world.check()
    world.clients("t", bob=None)
    await world.settle(operator)
    world.clients("s", ann=True)
    await world.settle(operator)
    assert world.pod_of("ann") == pod
    world.check()


async def test_a_pod_that_was_given_back_goes_when_its_time_is_up(world: World) -> None:
    operator = await started(world, "ann", reutilizeTimeoutSeconds=20, reuse="Template")
    world.clients(ann=None)
    await world.advance(19, operator)
    assert len(world.pods()) == 1
    await world.advance(2, operator)
    assert not world.pods()
    world.check()


async def test_the_pods_of_a_deleted_session_go_to_the_others(world: World) -> None:
    operator = await started(world, "ann", reutilizeTimeoutSeconds=20, reuse="Template")
    pod = world.pod_of("ann")
    world.delete(Session, "s")
    await world.advance(1, operator)
    world.session("t", bob=True)
    await world.settle(operator)
    assert world.pod_of("bob", "t") == pod
    world.check()


RESET = {"httpPath": "/reset"}


async def test_a_pod_is_made_clean_before_it_is_reused(world: World) -> None:
    parts = [pod_template(reset=RESET)]
    operator = await started(world, "ann", reutilizeTimeoutSeconds=20, podTemplates=parts)
    pod = world.pod_of("ann")
    world.clients(ann=None)
    await world.settle(operator)
    assert world.cleaners.cleaned == [pod]
    world.clients(bob=True)
    await world.settle(operator)
    assert world.pod_of("bob") == pod
    assert world.cleaners.cleaned == [pod]
    world.check()


async def test_a_pod_that_cannot_be_made_clean_goes(world: World) -> None:
    world.cleaners.works = False
    parts = [pod_template(reset=RESET)]
    operator = await started(world, "ann", reutilizeTimeoutSeconds=20, podTemplates=parts)
    pod = world.pod_of("ann")
    world.clients(ann=None, bob=True)
    await world.settle(operator)
    assert pod not in world.pods()
    world.check()


async def test_a_container_that_is_to_restart_is_clean_when_it_is_ready_again(
    world: World,
) -> None:
    parts = [pod_template(reset={"restartContainer": "main"})]
    world.cleaners.works = None  # type: ignore[assignment] - it is seen at the pod
    operator = await started(world, "ann", reutilizeTimeoutSeconds=20, podTemplates=parts)
    pod = world.pod_of("ann")
    world.clients(ann=None)
    await world.settle(operator)
    assert world.get().status.idle[pod].phase == "Resetting"
    statuses = [{"name": "main", "ready": True, "restartCount": 1}]
    body = {"status": {"containerStatuses": statuses}}
    world.store.patch(Pod.KIND, Key(NAMESPACE, pod), body, "status")
    await world.settle(operator)
    assert world.get().status.idle[pod].phase == "WaitForReuse"
    assert world.cleaners.cleaned == [pod]


async def test_a_pod_of_a_deleted_session_is_made_clean_for_the_others(world: World) -> None:
    parts = [pod_template(reset=RESET)]
    operator = await started(
        world, "ann", reutilizeTimeoutSeconds=20, reuse="Template", podTemplates=parts
    )
    pod = world.pod_of("ann")
    world.delete(Session, "s")
    await world.advance(1, operator)
    assert world.cleaners.cleaned == [pod]
    world.session("t", bob=True)
    await world.settle(operator)
    assert world.pod_of("bob", "t") == pod
    world.check()
    world.delete(Session, "t")
    await world.advance(1, operator)
    assert world.cleaners.cleaned == [pod, pod], "bob has made it dirty again"
    world.session("u", cat=True)
    await world.settle(operator)
    assert world.pod_of("cat", "u") == pod
    world.check()


async def test_a_container_restarts_for_each_of_those_who_come(world: World) -> None:
    parts = [pod_template(reset={"restartContainer": "main"})]
    world.cleaners.works = None  # type: ignore[assignment] - it is seen at the pod
    operator = await started(world, "ann", reutilizeTimeoutSeconds=20, podTemplates=parts)
    pod = world.pod_of("ann")
    for restarts, (leaving, coming) in enumerate((("ann", "bob"), ("bob", "cat")), start=1):
        world.clients(**{leaving: None})
        await world.settle(operator)
        assert world.cleaners.cleaned == [pod] * restarts
        statuses = [{"name": "main", "ready": True, "restartCount": restarts}]
        body = {"status": {"containerStatuses": statuses}}
        world.store.patch(Pod.KIND, Key(NAMESPACE, pod), body, "status")
        await world.settle(operator)
        world.clients(**{coming: True})
        await world.settle(operator)
        assert world.pod_of(coming) == pod


# Warm pods -----------------------------------------------------------------------------


async def test_warm_pods_are_ready_before_anyone_asks(world: World) -> None:
    world.template(podTemplates=[pod_template(warmPods=3)])
    operator = Operator(world)
    await world.advance(1, operator)
    world.check()
    assert len(world.pods()) == 3


async def test_a_warm_pod_costs_a_claim_and_one_write(world: World) -> None:
    world.template(podTemplates=[pod_template(warmPods=1)])
    operator = Operator(world)
    await world.advance(1, operator)
    world.session(ann=True)
    operator.client.writes.clear()
    operator.watch()
    workers = operator.workers[0]
    key = workers.queue.take()
    assert key is not None
    await workers._pass(key)
    assert [(verb, kind) for verb, kind, _ in operator.client.writes] == [
        ("create", "Lease"),
        ("patch", "Session"),
    ]
    assert world.get().status.clients["ann"].ready


async def test_a_warm_pod_that_was_taken_is_replaced(world: World) -> None:
    world.template(podTemplates=[pod_template(warmPods=2)])
    operator = Operator(world)
    await world.advance(1, operator)
    warm = world.pods().keys()
    world.session(ann=True)
    await world.advance(2, operator)
    world.check()
    assert world.pod_of("ann") in warm
    assert len(world.pods()) == 3


async def test_many_joins_at_once_take_different_warm_pods(world: World) -> None:
    world.template(podTemplates=[pod_template(warmPods=5)])
    operator = Operator(world)
    await world.advance(1, operator)
    for number in range(8):
        world.session(f"s{number}", ann=True)
    await world.advance(3, operator)
    world.check()
    assert len({world.pod_of("ann", f"s{number}") for number in range(8)}) == 8


async def test_fewer_warm_pods_than_before(world: World) -> None:
    world.template(podTemplates=[pod_template(warmPods=4)])
    operator = Operator(world)
    await world.advance(1, operator)
    world.edit_template(podTemplates=[pod_template(warmPods=1)])
    await world.advance(2, operator)
    world.check()
    assert len(world.pods()) == 1


async def test_warm_pods_follow_an_edited_template(world: World) -> None:
    world.template(podTemplates=[pod_template(warmPods=2)])
    operator = Operator(world)
    await world.advance(1, operator)
    before = world.pods().keys()
    world.edit_template(podTemplates=[newer(warmPods=2)])
    await world.advance(2, operator)
    world.check()
    assert before.isdisjoint(world.pods())


# Editing while in use ------------------------------------------------------------------


def newer(**fields: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "room:2"}]}
    return pod_template(template={"spec": spec}, **fields)


async def test_running_pods_stay_and_new_ones_follow(world: World) -> None:
    operator = await started(world, "ann")
    old = world.pod_of("ann")
    world.edit_template(podTemplates=[newer()])
    world.clients(bob=True)
    await world.settle(operator)
    world.check()
    assert world.pod_of("ann") == old
    images = {
        client: world.pods()[world.pod_of(client)].spec["containers"][0]["image"]
        for client in ("ann", "bob")
    }
    assert images == {"ann": "room:1", "bob": "room:2"}


async def test_an_idle_pod_of_the_old_template_is_not_reused(world: World) -> None:
    operator = await started(world, "ann", reutilizeTimeoutSeconds=60)
    old = world.pod_of("ann")
    world.clients(ann=None)
    await world.settle(operator)
    world.edit_template(podTemplates=[newer()])
    world.clients(bob=True)
    await world.settle(operator)
    world.check()
    assert world.pod_of("bob") != old
    assert old not in world.pods()


async def test_a_port_of_the_old_template_leads_where_the_old_pod_listens(world: World) -> None:
    operator = await started(world, "ann")
    world.edit_template(podTemplates=[pod_template(ports=[{"name": "http", "port": 9090}])])
    world.clients(bob=True)
    await world.settle(operator)
    world.check()
    ports = {route.address: route.target_port for route in routes_of(world.get())}
    assert sorted(ports.values()) == [8080, 9090]


async def test_fewer_clients_per_pod_move_nobody_but_let_nobody_in(world: World) -> None:
    parts = [pod_template(maxClients=4)]
    operator = await started(world, "a", "b", "c", podTemplates=parts)
    crowded = world.pod_of("a")
    world.edit_template(podTemplates=[pod_template(maxClients=2)])
    world.clients(d=True)
    await world.settle(operator)
    assert {world.pod_of(client) for client in "abc"} == {crowded}
    assert world.pod_of("d") != crowded
    world.clients(a=None, b=None)
    await world.settle(operator)
    world.clients(e=True, f=True)
    await world.settle(operator)
    world.check()
    assert len(world.pods()) == 2


async def test_a_pod_template_that_is_added_is_owed_to_those_who_are_there(world: World) -> None:
    operator = await started(world, "ann")
    world.edit_template(podTemplates=[pod_template(), pod_template("chat", maxClients=0)])
    await world.settle(operator)
    world.check()
    assert world.get().status.clients["ann"].endpoints.keys() == {"main", "chat"}


# Recovery ------------------------------------------------------------------------------


def kill(world: World, pod: str, way: str) -> None:
    match way:
        case "deleted":
            world.delete(Pod, pod)
        case "deleted by force":
            world.delete(Pod, pod, force=True)
        case "failed":
            world.fail_pod(pod)
        case "succeeded":
            world.harmed.add(pod)
            world.set_pod(pod, ready=False, phase="Succeeded")


WAYS = ("deleted", "deleted by force", "failed", "succeeded")


@pytest.mark.parametrize("way", WAYS)
async def test_a_pod_is_replaced_at_once_at_the_same_address_when_it_is(
    way: str, world: World
) -> None:
    parts = [pod_template(ports=[HTTP, UDP])]
    operator = await started(world, "ann", podTemplates=parts)
    before = world.get().status.clients["ann"]
    kill(world, world.pod_of("ann"), way)
    operator.watch()
    await operator.work()
    assert world.phase_of("ann") == "Recovering"
    assert world.get().status.clients["ann"].endpoints == before.endpoints
    assert not routes_of(world.get()), "nothing may lead to an address that others may get"
    await world.settle(operator)
    world.check()
    after = world.get().status.clients["ann"]
    assert after.endpoints == before.endpoints
    assert after.pods != before.pods
    assert world.get().status.recoveries == 1


async def test_those_who_lose_a_pod_together_stay_together(world: World) -> None:
    parts = [pod_template(maxClients=3)]
    operator = await started(world, *"abcdef", "g", podTemplates=parts)
    together = [c for c in "abcdefg" if world.pod_of(c) == world.pod_of("a")]
    assert len(together) == 3
    kill(world, world.pod_of("a"), "deleted")
    await world.settle(operator)
    world.check()
    assert len({world.pod_of(client) for client in together}) == 1


async def test_a_pod_on_a_lost_node_is_given_time(world: World) -> None:
    operator = await started(world, "ann", nodeLossSeconds=15)
    old = world.pod_of("ann")
    world.set_node(lost=True)
    world.set_pod(old, ready=False)
    await world.advance(14, operator)
    assert world.pod_of("ann") == old
    assert world.phase_of("ann") == "NotReady"
    world.set_node(lost=False)
    world.set_pod(old, ready=True)
    await world.advance(10, operator)
    world.check()
    assert world.pod_of("ann") == old


async def test_a_pod_on_a_node_that_stays_away_is_replaced(world: World) -> None:
    operator = await started(world, "ann", nodeLossSeconds=15)
    old = world.pod_of("ann")
    world.set_node(lost=True)
    world.set_pod(old, ready=False)
    world.node = "node-2"
    await world.advance(16, operator)
    world.check()
    assert world.pod_of("ann") != old


async def test_a_pod_that_is_not_ready_makes_its_clients_not_ready(world: World) -> None:
    operator = await started(world, "ann")
    world.set_pod(world.pod_of("ann"), ready=False)
    await world.settle(operator)
    record = world.get().status.clients["ann"]
    assert (record.ready, record.phase) == (False, "NotReady")
    world.set_pod(world.pod_of("ann"), ready=True)
    await world.settle(operator)
    world.check()


async def test_pods_that_end_by_themselves_are_not_made_in_a_loop(world: World) -> None:
    operator = await started(world, "ann")
    for _ in range(4):
        pod = world.pod_of("ann")
        if pod:
            world.fail_pod(pod)
        operator.watch()
        await operator.work()
    assert world.get().status.clients["ann"].failures["main"].count >= 2
    made = operator.client.writes.count
    created = [each for each in operator.client.writes if each[:2] == ("create", "Pod")]
    assert len(created) <= 3, made
    conditions = {each.type: each for each in world.get().status.conditions}
    assert conditions["Degraded"].reason == "PodsFailing"
    await world.advance(10, operator)
    world.check()


async def test_a_lost_client_is_given_another_pod_too(world: World) -> None:
    operator = await started(world, "ann", timeoutSeconds=60)
    world.clients(ann=False)
    await world.settle(operator)
    kill(world, world.pod_of("ann"), "deleted")
    await world.settle(operator)
    world.clients(ann=True)
    await world.settle(operator)
    world.check()
    assert world.get().status.clients["ann"].ready


# Ports ---------------------------------------------------------------------------------


async def test_every_seat_has_a_udp_port_of_its_own(world: World) -> None:
    clients = [f"c{number}" for number in range(20)]
    parts = [pod_template(maxClients=0, ports=[UDP])]
    operator = await started(world, *clients, podTemplates=parts)
    ports = {route.listen_port for route in routes_of(world.get())}
    assert len(ports) == 20
    world.clients(**dict.fromkeys(clients))
    await world.settle(operator)
    world.check()
    assert not world.store.all(PortClaim)


async def test_when_ports_run_out_it_is_said_and_healed(world: World) -> None:
    clients = [f"c{number:03}" for number in range(101)]
    world.template(podTemplates=[pod_template(maxClients=0, ports=[UDP])])
    world.session(**dict.fromkeys(clients, True))
    operator = Operator(world)
    await world.settle(operator)
    conditions = {each.type: each for each in world.get().status.conditions}
    assert conditions["Degraded"].reason == "PortsExhausted"
    waiting = [each for each in world.get().status.clients.values() if not each.ready]
    assert [each.message for each in waiting] == ["no public UDP port is free"]
    world.clients(c000=None)
    await world.settle(operator)
    world.check()


async def test_a_port_that_another_session_gives_back_is_found(world: World) -> None:
    clients = [f"c{number:03}" for number in range(100)]
    world.template(podTemplates=[pod_template(maxClients=0, ports=[UDP])])
    world.session("greedy", **dict.fromkeys(clients, True))
    operator = Operator(world)
    await world.settle(operator)
    world.session("s", ann=True)
    await world.rest(operator, most=30)
    assert world.get().status.clients["ann"].message == "no public UDP port is free"
    world.clients("greedy", c000=None)
    await world.rest(operator, most=10)
    assert world.phase_of("ann") == "Ready"
    world.check()


async def test_a_port_that_a_gateway_cannot_have_is_exchanged(world: World) -> None:
    world.template(podTemplates=[pod_template(ports=[HTTP, UDP])])
    world.session(ann=True)
    operator = Operator(world)
    operator.indexes.ports.avoid(1)
    probe = operator.indexes.ports.pick
    world.gateways.broken_ports = set(range(20000, 20099))
    del probe
    await world.advance(300, operator)
    world.check()
    assert [route.listen_port for route in routes_of(world.get()) if route.listen_port] == [20099]


async def test_a_claim_that_somebody_deleted_is_made_again(world: World) -> None:
    operator = await started(world, "ann", podTemplates=[pod_template(ports=[UDP])])
    claim = world.store.all(PortClaim)[0]
    world.store.delete(PortClaim.KIND, claim.key, {})
    await world.settle(operator)
    world.check()
    assert world.store.all(PortClaim)[0].metadata.name == claim.metadata.name


async def test_a_claim_of_another_domain_under_the_name_of_a_session_is_left_alone(
    world: World,
) -> None:
    spec = {"domain": "games", "owner": f"{NAMESPACE}/s", "uid": "u", "holder": "h", "port": "p"}
    world.store.create(PortClaim.KIND, {"metadata": {"name": "udp-20099"}, "spec": spec})
    operator = await started(world, "ann", podTemplates=[pod_template(ports=[UDP])])
    assert {each.spec.domain for each in world.store.all(PortClaim)} == {"games", "sessions"}
    world.delete(Session, "s")
    await world.advance(8, operator)
    world.check()
    assert [each.metadata.name for each in world.store.all(PortClaim)] == ["udp-20099"]


# Limits --------------------------------------------------------------------------------


async def test_clients_over_the_limit_wait_for_a_place(world: World) -> None:
    operator = await started(world, "ann", "bob", maxClients=2)
    world.clients(cat=True)
    await world.settle(operator)
    assert world.phase_of("cat") == "Refused"
    assert "maxClients is 2" in world.get().status.clients["cat"].message
    world.clients(ann=None)
    await world.settle(operator)
    world.check()
    assert world.phase_of("cat") == "Ready"


async def test_sessions_over_the_limit_get_nothing(world: World) -> None:
    operator = await started(world, "ann", maxSessions=1)
    world.now += 1
    world.session("t", bob=True)
    await world.settle(operator)
    assert world.phase_of("bob", "t") == "Refused"


@pytest.mark.parametrize("value", [7, "yes", None, [], {"connected": "no"}])
async def test_nonsense_in_the_map_of_clients_harms_only_itself(
    value: object, world: World
) -> None:
    operator = await started(world, "ann")
    body = {"spec": {"clients": {"odd": value}}}
    raw = world.store.get(Session, Key(NAMESPACE, "s"))
    raw["spec"]["clients"]["odd"] = value
    world.store.patch(Session.KIND, Key(NAMESPACE, "s"), {"metadata": {"labels": {"x": "y"}}})
    await world.settle(operator)
    assert world.phase_of("odd") == "Refused", body
    assert "connected" in world.get().status.clients["odd"].message
    assert world.phase_of("ann") == "Ready"


# The end -------------------------------------------------------------------------------


@pytest.mark.parametrize("reuse", ["Never", "Session", "Template"])
async def test_deleting_a_session_removes_all_it_made(reuse: str, world: World) -> None:
    parts = [pod_template(ports=[HTTP, UDP], service=True)]
    operator = await started(
        world, "ann", "bob", podTemplates=parts, reuse=reuse, reutilizeTimeoutSeconds=5
    )
    world.delete(Session, "s")
    await world.advance(8, operator)
    world.check()
    assert not world.pods(alive=False)
    assert not world.store.all(PortClaim)
    assert not world.store.all(Lease)
    left = {kind.kind for kind, objects in world.store.objects.items() if objects}
    assert left == {"SessionTemplate"}


async def test_a_successor_of_the_same_name_starts_from_nothing(world: World) -> None:
    operator = await started(world, "ann")
    old = world.pod_of("ann")
    world.delete(Session, "s")
    world.session(ann=True)
    await world.settle(operator)
    world.check()
    assert world.pod_of("ann") != old
    assert old not in world.pods()


async def test_a_template_in_use_waits_and_says_why(world: World) -> None:
    operator = await started(world, "ann", podTemplates=[pod_template(warmPods=2)])
    world.delete(SessionTemplate, "room")
    await world.advance(1, operator)
    conditions = {each.type: each for each in world.get_template().status.conditions}
    assert conditions["InUse"].message == "it is deleted when these are gone: s"
    assert world.get().status.clients["ann"].ready
    world.delete(Session, "s")
    await world.advance(40, operator)
    assert not world.store.all(SessionTemplate)
    assert not world.pods(alive=False)
    assert not world.store.all(Lease)


async def test_a_template_stays_for_a_session_that_nobody_has_seen_yet(world: World) -> None:
    world.template(reutilizeTimeoutSeconds=0)
    operator = Operator(world)
    await world.advance(1, operator)
    world.session(ann=True)
    world.delete(SessionTemplate, "room")
    operator.watch(kinds=["SessionTemplate"])
    await operator.work()
    assert world.store.all(SessionTemplate), "the session would have no template"
    await world.advance(5, operator)
    assert world.get().status.clients["ann"].ready


async def test_a_template_that_is_gone_by_force_takes_no_client_down(world: World) -> None:
    operator = await started(world, "ann", timeoutSeconds=60)
    body = {"metadata": {"finalizers": []}}
    world.delete(SessionTemplate, "room")
    world.store.patch(SessionTemplate.KIND, Key(NAMESPACE, "room"), body)
    await world.advance(5, operator)
    assert world.get().status.clients["ann"].ready
    world.clients(ann=False)
    await world.advance(100, operator)
    assert world.phase_of("ann") == "Disconnected"
    world.clients(ann=None)
    await world.settle(operator)
    assert not world.pods()


# Bound resources -----------------------------------------------------------------------

CONFIG = {"kind": "ConfigMap", "data": {"colour": "blue"}}


def config_maps(world: World) -> set[str]:
    return {
        key.name
        for kind, objects in world.store.objects.items()
        if kind.kind == "ConfigMap"
        for key in objects
    }


async def test_a_resource_of_a_session_comes_and_goes_with_it(world: World) -> None:
    resources = [{"name": "look", "manifest": CONFIG}]
    operator = await started(world, resources=resources)
    assert config_maps(world) == {"s-look"}
    world.delete(Session, "s")
    await world.advance(1, operator)
    assert not config_maps(world)


async def test_a_resource_of_a_template_is_there_while_anybody_is(world: World) -> None:
    resources = [{"name": "look", "scope": "Template", "manifest": CONFIG}]
    operator = await started(world, resources=resources)
    world.session("t")
    await world.advance(1, operator)
    assert not config_maps(world)
    world.clients("s", ann=True)
    world.clients("t", bob=True)
    await world.advance(1, operator)
    assert config_maps(world) == {"room---look"}
    world.clients("s", ann=None)
    await world.advance(1, operator)
    assert config_maps(world) == {"room---look"}
    world.clients("t", bob=None)
    await world.advance(1, operator)
    assert not config_maps(world)


async def test_an_edited_resource_is_applied_again(world: World) -> None:
    operator = await started(world, resources=[{"name": "look", "manifest": CONFIG}])
    changed = {**CONFIG, "data": {"colour": "red"}}
    world.edit_template(resources=[{"name": "look", "manifest": changed}])
    await world.settle(operator)
    (raw,) = (
        raw
        for kind, objects in world.store.objects.items()
        if kind.kind == "ConfigMap"
        for raw in objects.values()
    )
    assert raw["data"] == {"colour": "red"}


# For whoever is on call ----------------------------------------------------------------


async def test_what_happens_is_counted(world: World) -> None:
    operator = await started(
        world,
        "ann",
        "bob",
        timeoutSeconds=10,
        reutilizeTimeoutSeconds=30,
        podTemplates=[pod_template(warmPods=1)],
    )
    await world.advance(1, operator)
    world.clients(cat=True)  # warm
    await world.settle(operator)
    world.clients(ann=None)
    await world.settle(operator)
    world.clients(dan=True)  # reused
    await world.settle(operator)
    kill(world, world.pod_of("bob"), "deleted")
    await world.advance(1, operator)
    world.clients(bob=None, cat=False)
    await world.advance(11, operator)
    world.check()
    metrics = operator.sessions.metrics

    def value(name: str, **labels: str) -> float:
        found = metrics.registry.get_sample_value(f"edgewise_session_{name}", labels)
        assert found is not None, name
        return found

    assert value("joins_total") == 4
    assert value("warm_hits_total") == 2  # also the one that replaced the deleted pod
    assert value("reuses_total") == 1
    assert value("recoveries_total") == 1
    assert value("expiries_total") == 1
    assert value("ready_seconds_count") == 4
    assert value("recovery_seconds_count") == 1
    assert value("deadline_lag_seconds_count") == 1
    assert value("route_seconds_count") >= 4
    assert value("pods", phase="InUse") == 1
    assert value("pods", phase="WaitForReuse") == 2
    assert value("clients", phase="Ready") == 1
    assert value("clients", phase="Expired") == 1


# What nobody should have done ----------------------------------------------------------


def write_status(world: World, **status: Any) -> None:
    world.store.patch(Session.KIND, Key(NAMESPACE, "s"), {"status": status}, "status")


NONSENSE: dict[str, dict[str, Any]] = {
    "a client that is a number": {"clients": {"ann": 7}},
    "seats that are a list": {"clients": {"ann": {"pods": []}}},
    "clients that are a text": {"clients": "everybody"},
    "pods that are a list": {"pods": ["s-main-0"]},
    "an address that is a number": {"pods": {"main-0": {"s": 5}}},
    "a number that is a text": {"next": "many"},
    "idle pods that are nothing": {"idle": 0},
    "revisions of another kind": {"revisions": {"main-0": {"ports": 3}}},
    "a seat in a pod that nobody knows": {"clients": {"ann": {"pods": {"main": "nowhere"}}}},
    "a deadline that is no time": {"clients": {"bob": {"until": "soon"}}},
    "no clients at all": {"clients": None},
    "no pods at all": {"pods": None},
    "no revisions at all": {"revisions": None},
    "nothing at all": dict.fromkeys(
        ("clients", "pods", "idle", "revisions", "counts", "conditions", "next")
    ),
}


@pytest.mark.parametrize("case", NONSENSE)
async def test_a_status_is_healed_that_says(case: str, world: World) -> None:
    operator = await started(world, "ann", "bob", timeoutSeconds=10, reutilizeTimeoutSeconds=5)
    world.session("t", cat=True)
    await world.settle(operator)
    world.harmed |= world.pods().keys()
    write_status(world, **NONSENSE[case])
    await world.settle(operator)
    world.clients("t", dan=True)
    await world.advance(12, operator)
    world.check()
    assert world.get().status.clients["ann"].ready
    assert world.get("t").status.clients["dan"].ready


@pytest.mark.parametrize("case", NONSENSE)
async def test_a_new_operator_heals_a_status_that_says(case: str, world: World) -> None:
    await started(world, "ann", "bob", timeoutSeconds=10, reutilizeTimeoutSeconds=5)
    world.harmed |= world.pods().keys()
    write_status(world, **NONSENSE[case])
    operator = Operator(world)
    await world.advance(12, operator)
    world.check()
