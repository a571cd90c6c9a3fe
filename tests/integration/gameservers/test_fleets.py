"""Fleets on a real API server: their number, which servers go, and who wins a race."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest

from edgewise.api.games import Allocation, Fleet, Server
from edgewise.gameservers import names
from edgewise.gameservers.retirement import created
from edgewise.kube.errors import AlreadyExists, NotFound
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.runtime.manager import Election
from edgewise.testing.eventually import eventually
from tests.integration.gameservers.stage import Stage

IDLE_MAY_GO = {"deletion": {"idle": "Allow"}}
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"


async def scale(stage: Stage, replicas: int) -> None:
    await stage.client.patch(
        Fleet, "arena", stage.namespace, body={"spec": {"scaling": {"replicas": replicas}}}
    )


async def test_fr9_a_fleet_maintains_its_number_of_servers(stage: Stage) -> None:
    async with stage.operator():
        await stage.fleet(5, server=IDLE_MAY_GO)
        await stage.counts("Ready", 5)
        await scale(stage, 2)
        await stage.counts("Ready", 2)

        async def counted() -> None:
            status = (await stage.client.get(Fleet, "arena", stage.namespace)).status
            assert (status.replicas, status.ready, status.allocated) == (2, 2, 0)

        await eventually(counted)


async def test_a_server_takes_three_writes_to_be_ready(stage: Stage) -> None:
    async with stage.operator():
        await stage.fleet(3)
        await stage.counts("Ready", 3)
        servers = await stage.servers()
    told = await stage.client.request("GET", EVENTS.format(stage.namespace))
    assert msgspec.json.decode(told)["items"] == [], "an Event would be a fourth write"
    for server in servers:
        # Created (generation 1) and one status: nothing else has touched it.
        managers = await stage.client.request(
            "GET", Server.KIND.path(stage.namespace, server.metadata.name)
        )
        assert managers.count(b'"operation":"Update"') == 2
        assert server.metadata.generation == 1


@pytest.mark.parametrize(("age", "first"), [("oldest_first", 0), ("newest_first", 3)])
async def test_fr10_a_fleet_removes_the_oldest_or_the_youngest_first_as_it_says(
    stage: Stage, age: str, first: int
) -> None:
    async with stage.operator():
        marks = {"labels": {"over": "yes"}, "annotations": {"why": "shrunk"}}
        await stage.fleet(4, server=IDLE_MAY_GO, scaling={"agePriority": age}, overflow=marks)
        await stage.counts("Ready", 4)
        servers = sorted(
            await stage.servers(), key=lambda each: int(each.metadata.labels[names.NUMBER])
        )
        by_age = [each.metadata.name for each in servers]
        # Who plays goes last, though it is its turn.
        playing, goes = by_age[first], by_age[1 if first == 0 else 2]
        await stage.allocate(playing)
        await stage.becomes("Allocated", playing)
        await scale(stage, 3)
        await stage.is_gone(Server, goes)
        await scale(stage, 1)

        async def one_left() -> None:
            assert [each.metadata.name for each in await stage.servers()] == [playing]

        await eventually(one_left)
        # One above the number that cannot go yet is marked, so that its game can see it.
        assert "over" not in (await stage.get(playing)).metadata.labels
        await scale(stage, 0)
        asked = (await stage.becomes("Draining", playing)).metadata
        assert (asked.labels["over"], asked.annotations["why"]) == ("yes", "shrunk")


async def test_fr11_a_fleet_recovers_when_servers_are_deleted_by_hand(stage: Stage) -> None:
    async with stage.operator():
        await stage.fleet(2)
        await stage.counts("Ready", 2)
        name = (await stage.servers())[0].metadata.name
        await stage.delete(Server, name)
        await stage.becomes("Draining", name)
        # The new one does not wait for the old one to go.
        await stage.counts("Ready", 2)
        assert len(await stage.servers()) == 3
        await stage.say(name, allowed=True)
        await stage.is_gone(Server, name)


async def test_a_server_that_crashes_is_replaced_under_another_number(stage: Stage) -> None:
    async with stage.operator():
        await stage.fleet(1)
        await stage.counts("Ready", 1)
        (first,) = await stage.servers()
        await stage.kubelets.set_pod(names.pod_of(first.metadata.name), ready=False, phase="Failed")
        await stage.is_gone(Server, first.metadata.name)
        await stage.counts("Ready", 1)
        (second,) = await stage.servers()
        assert int(second.metadata.labels[names.NUMBER]) > int(first.metadata.labels[names.NUMBER])


async def test_fr7_a_finalizer_keeps_a_fleet_until_its_servers_have_gone(stage: Stage) -> None:
    async with stage.operator():
        await stage.fleet(2)
        await stage.counts("Ready", 2)
        fleet = await stage.client.get(Fleet, "arena", stage.namespace)
        assert fleet.metadata.finalizers == [names.FLEET_FINALIZER]
        playing, idle = (each.metadata.name for each in await stage.servers())
        await stage.allocate(playing)
        await stage.becomes("Allocated", playing)
        await stage.delete(Fleet, "arena")
        await stage.becomes("Draining", playing)
        await stage.say(idle, allowed=True)
        await stage.is_gone(Server, idle)
        assert (await stage.client.get(Fleet, "arena", stage.namespace)).metadata.deleting
        await stage.say(playing, allowed=True)
        await stage.is_gone(Fleet, "arena")
        await stage.is_gone(Allocation, playing)


async def test_an_allocator_and_a_shrinking_fleet_race_and_exactly_one_wins(
    stage: Stage,
) -> None:
    rounds = 12
    async with stage.operator():
        await stage.fleet(rounds, server=IDLE_MAY_GO)
        await stage.counts("Ready", rounds)
        servers = [each.metadata.name for each in await stage.servers()]

        async def allocate(name: str) -> str | None:
            """As a replica does: it counts if no list that retires the server is earlier."""
            with contextlib.suppress(AlreadyExists, NotFound):
                own = await stage.allocate(name)
                found = await stage.client.list(Allocation, stage.namespace)
                lists = [each for each in found.items if name in each.spec.retires]
                if all(created(own) < created(each) for each in lists):
                    return name
            return None

        won, _ = await asyncio.gather(
            asyncio.gather(*(allocate(name) for name in servers)), scale(stage, 0)
        )
        playing = {name for name in won if name is not None}

        async def settled() -> None:
            left = {each.metadata.name for each in await stage.servers()}
            assert left == playing

        await eventually(settled, within=20)
        for name in playing:
            pod = await stage.pod(name)
            assert not pod.metadata.deleting, "a server with players was taken for idle"


async def test_many_servers_are_taken_by_one_list_which_goes_with_them(stage: Stage) -> None:
    async with stage.operator():
        await stage.fleet(6)
        await stage.counts("Ready", 6)
        servers = {each.metadata.name for each in await stage.servers()}
        await scale(stage, 1)
        await stage.counts("Ready", 1)
        (found,) = (await stage.client.list(Allocation, stage.namespace)).items
        assert found.spec.retired
        assert len(found.spec.retires) == 5
        for name in found.spec.retires:
            await stage.say(name, allowed=True)
        await stage.is_gone(Allocation, found.metadata.name)
        (left,) = await stage.servers()
        assert left.metadata.name in servers - found.spec.retires.keys()


async def test_a_namespace_that_ends_asks_and_keeps_who_plays(stage: Stage) -> None:
    async with stage.operator():
        await stage.fleet(2, server=IDLE_MAY_GO)
        await stage.counts("Ready", 2)
        playing, idle = (each.metadata.name for each in await stage.servers())
        await stage.allocate(playing)
        await stage.becomes("Allocated", playing)
        await stage.client.delete(Namespace, stage.namespace)
        asked = await stage.becomes("Draining", playing)
        assert asked.status.shutdown is not None
        assert asked.status.shutdown.why == "NamespaceDeleted"
        await stage.is_gone(Pod, names.pod_of(idle))
        assert not (await stage.pod(playing)).metadata.deleting


async def test_two_operators_in_turn_use_no_number_twice(stage: Stage) -> None:
    election = Election("games", stage.namespace)
    used: set[str] = set()
    await stage.fleet(2, server=IDLE_MAY_GO)
    for _ in range(2):
        async with stage.operator(election=election):
            await stage.counts("Ready", 2)
            now = {each.metadata.labels[names.NUMBER] for each in await stage.servers()}
            assert not now & used
            used |= now
            for each in await stage.servers():
                await stage.delete(Server, each.metadata.name)

            async def replaced(before: set[str] = now) -> None:
                found = {each.metadata.labels[names.NUMBER] for each in await stage.servers()}
                assert not found & before
                assert len(found) == 2

            await eventually(replaced, within=20)
            used |= {each.metadata.labels[names.NUMBER] for each in await stage.servers()} - used
            for each in await stage.servers():
                await stage.delete(Server, each.metadata.name)


async def test_no_two_servers_share_a_port_while_one_is_free(stage: Stage) -> None:
    number = 60
    async with stage.operator():
        await stage.fleet(number, server={"ports": [{"name": "play", "containerPort": 9000}]})
        await stage.counts("Ready", number, within=40)
        chosen = [each.status.ports[0].port for each in await stage.servers()]
    assert len(set(chosen)) == number  # nobody shares while there are free ones
