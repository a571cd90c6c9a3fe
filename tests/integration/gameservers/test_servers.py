"""One server on a real API server: its life, and its protected end."""

from __future__ import annotations

import asyncio

import pytest

from edgewise.api.games import Allocation, AllocationSpec, Server, WaitingInLine
from edgewise.gameservers import names
from edgewise.kube.errors import Forbidden, NotFound, TooManyRequests
from edgewise.kube.kinds.core import Node, Pod
from edgewise.kube.kinds.policy import PodDisruptionBudget
from edgewise.testing.eventually import eventually
from tests.integration.gameservers.stage import Stage

IDLE_MAY_GO = {"idle": "Allow"}


async def test_a_server_gets_a_pod_with_a_sidecar_and_becomes_ready(stage: Stage) -> None:
    async with stage.operator():
        await stage.server(ports=[{"name": "play", "containerPort": 7777}])
        server = await stage.becomes("Ready")
        pod = await stage.pod()
    assert pod.spec["initContainers"][0]["name"] == "edgewise-sidecar"
    assert pod.spec["priorityClassName"] == names.PRIORITY_CLASS
    assert pod.spec["restartPolicy"] == "Never"
    (port,) = server.status.ports
    assert 7000 <= port.port <= 7099
    assert server.status.address == "192.0.2.1"
    assert server.status.node == pod.node_name


async def test_fr1_a_deleted_server_persists_until_its_game_allows_it(stage: Stage) -> None:
    async with stage.operator():
        await stage.server()
        await stage.becomes("Ready")
        await stage.delete(Server, "one")
        asked = await stage.becomes("Draining")
        assert asked.status.shutdown is not None
        assert asked.status.shutdown.why == "Deleted"
        taken = await stage.client.get(Allocation, "one", stage.namespace)
        assert taken.spec.retired
        assert not (await stage.pod()).metadata.deleting
        await stage.say("one", allowed=True)
        await stage.is_gone(Server, "one")
        await stage.is_gone(Allocation, "one")


async def test_an_allocated_server_is_ended_when_its_time_is_over(stage: Stage) -> None:
    async with stage.operator():
        await stage.server(timeout="2s", deletion=IDLE_MAY_GO)
        await stage.becomes("Ready")
        await stage.allocate("one")
        await stage.becomes("Allocated")
        await stage.delete(Server, "one")
        await stage.becomes("Draining")
        assert not (await stage.pod()).metadata.deleting
        await stage.is_gone(Server, "one")


async def test_a_server_that_crashes_gets_another_pod(stage: Stage) -> None:
    async with stage.operator():
        await stage.server()
        await stage.becomes("Ready")
        first = (await stage.pod()).metadata.uid
        await stage.kubelets.set_pod("one-pod", ready=False, phase="Failed")

        async def another() -> None:
            assert (await stage.pod()).metadata.uid != first

        await eventually(another, within=15, not_yet=(NotFound,))
        await stage.becomes("Ready")


async def test_a_cordoned_node_asks_and_the_server_moves_when_its_game_allows(
    stage: Stage, nodes: list[str]
) -> None:
    async with stage.operator():
        await stage.server()
        node = (await stage.becomes("Ready")).status.node
        await stage.client.patch(Node, node, body={"spec": {"unschedulable": True}})
        asked = await stage.becomes("Draining")
        assert asked.status.shutdown is not None
        assert asked.status.shutdown.why == "NodeCordoned"
        await stage.say("one", allowed=True)

        async def moved() -> None:
            found = await stage.get()
            assert found.status.state == "Ready"
            assert found.status.node != node

        await eventually(moved, within=15)


async def test_a_node_that_is_in_use_again_takes_the_question_back(
    stage: Stage, nodes: list[str]
) -> None:
    async with stage.operator():
        await stage.server()
        node = (await stage.becomes("Ready")).status.node
        pod = (await stage.pod()).metadata.uid
        await stage.client.patch(Node, node, body={"spec": {"unschedulable": True}})
        await stage.becomes("Draining")
        await stage.client.patch(Node, node, body={"spec": {"unschedulable": False}})
        await stage.becomes("Ready")
        await stage.is_gone(Allocation, "one")
        assert (await stage.pod()).metadata.uid == pod


NAMESAKE = "system:serviceaccount:elsewhere:edgewise-operator"


async def delete_as(stage: Stage, user: str, group: str = "system:authenticated") -> None:
    """As a dry run: only whether it would be let through."""
    headers = {"Impersonate-User": user, "Impersonate-Group": group}
    path = Pod.KIND.path(stage.namespace, "one-pod")
    await stage.client.request("DELETE", path, headers=headers, params={"dryRun": "All"})


async def test_the_pod_of_a_server_is_refused_to_everybody_but_the_operator(
    stage: Stage,
) -> None:
    async with stage.operator():
        await stage.server()
        await stage.becomes("Ready")
    # From here on no operator runs.
    with pytest.raises(Forbidden, match="delete the Server instead"):
        await stage.client.delete(Pod, "one-pod", stage.namespace)
    with pytest.raises(Forbidden, match="delete the Server instead"):
        await stage.client.delete(Pod, "one-pod", stage.namespace, grace_seconds=0)
    with pytest.raises(Forbidden, match="delete the Server instead"):
        await stage.client.request("DELETE", Pod.KIND.path(stage.namespace))
    with pytest.raises(Forbidden, match="it stays as it is"):
        await stage.client.patch(
            Pod,
            "one-pod",
            stage.namespace,
            body={"metadata": {"labels": {names.PROTECTED: None}}},
        )
    with pytest.raises(TooManyRequests):
        await stage.client.evict("one-pod", stage.namespace)
    # A namesake of the operator who may delete pods, and has none of its other rights.
    await stage.grant(NAMESAKE, {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]})

    async def refused_by_the_policy() -> None:
        with pytest.raises(Forbidden, match="delete the Server instead"):
            await delete_as(stage, NAMESAKE)

    await eventually(refused_by_the_policy)
    assert not (await stage.pod()).metadata.deleting
    # kube-scheduler, if it were refused, would try again hundreds of times a second.
    for program in ("system:kube-scheduler", names.OPERATOR_USER, names.UNINSTALL_USER):
        await delete_as(stage, program, group="system:masters")
    # Of a game that has ended nothing is left to protect.
    await stage.kubelets.set_pod("one-pod", ready=False, phase="Failed")
    await stage.client.delete(Pod, "one-pod", stage.namespace)


async def test_an_allocation_is_refused_to_everybody_but_operator_and_server(
    stage: Stage,
) -> None:
    async with stage.operator():
        await stage.server()
        await stage.becomes("Ready")
        await stage.allocate("one")
        with pytest.raises(Forbidden, match="only the operator and the server of Edgewise"):
            await stage.client.delete(Allocation, "one", stage.namespace)
        with pytest.raises(Forbidden, match="only the operator and the server of Edgewise"):
            await stage.client.patch(
                Allocation, "one", stage.namespace, body={"spec": {"match": "other"}}
            )


async def test_servers_are_retired_by_nobody_but_the_operator(stage: Stage) -> None:
    async with stage.operator():
        await stage.fleet(1)
        await stage.becomes("Ready", "arena-0")
        uid = (await stage.get("arena-0")).metadata.uid
        retiring = {
            "arena-0": AllocationSpec(server_uid=uid, retired=True, fleet="arena"),
            "arena-0.retired": AllocationSpec(retires={"arena-0": uid}, fleet="arena"),
            # The name of a list that the fleet would need, without a word of retiring.
            "arena-1.retired": AllocationSpec(server_uid=uid, match="m", fleet="arena"),
        }
        for name, spec in retiring.items():
            with pytest.raises(Forbidden, match="only the operator makes one"):
                await stage.client.create(Allocation.named(name, stage.namespace, spec=spec))
        # Whoever may create Allocations takes a server for a match, as before.
        match = AllocationSpec(server_uid=uid, match="m", fleet="arena")
        await stage.client.create(Allocation.named("arena-0", stage.namespace, spec=match))
        await stage.becomes("Allocated", "arena-0")


async def test_a_match_that_waits_is_nothing_that_a_server_left_behind(stage: Stage) -> None:
    waiting = AllocationSpec(
        game="arena", match="m1", waiting=WaitingInLine(until="2099-01-01T00:00:00Z")
    )
    async with stage.operator():
        await stage.client.create(Allocation.named("0a1b.waiting", stage.namespace, spec=waiting))
        # A server that comes after it is ready: by then the operator has looked at both.
        await stage.server()
        await stage.becomes("Ready")
        await asyncio.sleep(1)
    assert await stage.client.get(Allocation, "0a1b.waiting", stage.namespace)


async def test_the_budget_is_there_before_the_first_pod(stage: Stage) -> None:
    async with stage.operator():
        await stage.server()
        await stage.becomes("Ready")
    budget = await stage.client.get(PodDisruptionBudget, names.BUDGET, stage.namespace)
    pod = await stage.pod()
    assert int(budget.metadata.resource_version) < int(pod.metadata.resource_version)


async def test_a_budget_that_somebody_deletes_is_made_again(stage: Stage) -> None:
    async with stage.operator():
        await stage.server()
        await stage.becomes("Ready")
        await stage.client.delete(PodDisruptionBudget, names.BUDGET, stage.namespace)

        async def there_again() -> None:
            await stage.client.get(PodDisruptionBudget, names.BUDGET, stage.namespace)

        await eventually(there_again, not_yet=(NotFound,))


async def test_an_own_budget_over_the_same_pods_is_told(stage: Stage) -> None:
    async with stage.operator():
        await stage.server()
        await stage.becomes("Ready")
        own = {"minAvailable": 1, "selector": {"matchLabels": {names.SERVER: "one"}}}
        await stage.client.create(PodDisruptionBudget.named("mine", stage.namespace, spec=own))

        async def told() -> list[str]:
            found = (await stage.get()).status.conditions
            return [each.message for each in found if each.type == "TwoBudgets"]

        async def warned() -> None:
            (words,) = await told()
            assert "the PodDisruptionBudget mine selects its pod too" in words

        await eventually(warned, not_yet=(ValueError,))
        await stage.client.delete(PodDisruptionBudget, "mine", stage.namespace)

        async def taken_back() -> None:
            assert not await told()

        await eventually(taken_back)


async def test_a_label_alone_makes_no_pod_that_nobody_can_delete(stage: Stage) -> None:
    for name in ("mine", "nobodys-pod"):
        made = Pod.named(name, stage.namespace, spec={**POD_OF_OTHERS})
        made.metadata.labels = {names.PROTECTED: "nobodys"}
        await stage.client.create(made)
    await stage.client.delete(Pod, "mine", stage.namespace)
    # What has the name too is protected until an operator sees that there is no such Server.
    with pytest.raises(Forbidden):
        await stage.client.delete(Pod, "nobodys-pod", stage.namespace)
    async with stage.operator():
        await stage.is_gone(Pod, "nobodys-pod")


async def test_a_server_that_is_deleted_while_no_operator_runs_is_asked_later(
    stage: Stage,
) -> None:
    async with stage.operator():
        await stage.server(deletion=IDLE_MAY_GO)
        await stage.becomes("Ready")
    await stage.delete(Server, "one")
    assert (await stage.get()).metadata.deleting
    assert not (await stage.pod()).metadata.deleting
    async with stage.operator():
        await stage.is_gone(Server, "one")


async def test_a_foreign_pod_of_the_name_is_left_alone_and_the_server_says_why(
    stage: Stage,
) -> None:
    await stage.client.create(Pod.named("one-pod", stage.namespace, spec={**POD_OF_OTHERS}))
    async with stage.operator():
        await stage.server()

        async def said() -> None:
            found = await stage.get()
            assert any(each.reason == "NameTaken" for each in found.status.conditions)

        await eventually(said)
    assert not (await stage.pod()).metadata.deleting


async def test_what_a_server_left_that_went_without_the_operator_is_taken_away(
    stage: Stage,
) -> None:
    """A pod and an Allocation that nobody else would end."""
    async with stage.operator():
        await stage.server()
        await stage.becomes("Ready")
        await stage.allocate("one")
        await stage.becomes("Allocated")
    # By force, while no operator runs.
    await stage.client.patch(
        Server, "one", stage.namespace, body={"metadata": {"finalizers": None}}
    )
    await stage.delete(Server, "one")
    await stage.is_gone(Server, "one")
    await stage.pod()
    async with stage.operator():
        await stage.is_gone(Pod, "one-pod")
        await stage.is_gone(Allocation, "one")


async def test_kill_ends_a_server_at_once(stage: Stage) -> None:
    async with stage.operator():
        await stage.server()
        await stage.becomes("Ready")
        await stage.allocate("one")
        await stage.becomes("Allocated")
        await stage.client.patch(
            Server, "one", stage.namespace, body={"spec": {"operation": "Kill"}}
        )
        await stage.is_gone(Pod, "one-pod")
        await stage.becomes("Shutdown")


POD_OF_OTHERS = {"containers": [{"name": "other", "image": "other"}]}
