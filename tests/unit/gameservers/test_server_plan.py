"""What should happen to one server, as sentences."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.games import Allowed, GameSaid
from edgewise.gameservers.server.observed import NodeFacts, Observed, Taken
from edgewise.gameservers.server.plan import ServerPlan, plan_server, rest_after
from edgewise.workloads.deadlines import stamp
from tests.unit.gameservers.making import NOBODY, NOW, READY, SOMEBODY, STARTING, said, seen

replace = msgspec.structs.replace
ENDED = replace(READY, ready=False, running=False, ended=True, text="game: Error with code 1")
DONE = replace(ENDED, succeeded=True)
ASKED = {
    "state": "Draining",
    "shutdown": {"why": "Deleted", "since": stamp(NOW - 60), "deadline": stamp(NOW + 2340)},
}
OVER = {
    "state": "Draining",
    "shutdown": {"why": "Deleted", "since": stamp(NOW - 2400), "deadline": stamp(NOW)},
}
DYNAMIC = {"ports": [{"name": "play", "containerPort": 7777}]}
STATIC = {"ports": [{"name": "play", "containerPort": 7777, "policy": "Static", "hostPort": 7}]}
LOST = NodeFacts(lost_since=NOW - 31)


def facts(plan: ServerPlan) -> dict[str, Any]:
    """Only what the plan does."""
    status = plan.status
    return {
        name: value
        for name, value in {
            "finalizer": plan.add_finalizer,
            "budget": plan.budget,
            "create": plan.create_pod,
            "retire": plan.retire,
            "release": plan.release,
            "delete": bool(plan.delete_pod),
            "let_go": plan.remove_finalizer,
            "state": status.state if status else "",
        }.items()
        if value
    }


LIVING: dict[str, tuple[Observed, dict[str, Any]]] = {
    "a server without a pod gets one, and no status before it is ready": (
        seen(None),
        {"create": True},
    ),
    "a server that was made by hand is held first": (
        seen(None, finalizer=False),
        {"create": True, "finalizer": True},
    ),
    "a pod that starts costs no write": (seen(STARTING), {}),
    "a pod in trouble says so at once": (
        seen(replace(STARTING, trouble=True, reason="Unschedulable")),
        {"state": "Pending"},
    ),
    "a pod that takes long says so": (
        seen(replace(STARTING, node="n1"), status={"state": "Pending"}),
        {"state": "Starting"},
    ),
    "a ready pod is a ready server": (seen(), {"state": "Ready"}),
    "with ready SDK the game has to say it": (
        seen(spec={"ready": "SDK"}, status={"state": "Pending"}),
        {"state": "Starting"},
    ),
    "with ready SDK the game's word counts": (
        seen(spec={"ready": "SDK"}, status=said(ready=True)),
        {"state": "Ready"},
    ),
    "what another pod has said does not count": (
        seen(
            spec={"ready": "SDK"},
            status={"state": "Ready", "game": {"pod": "p0", "ready": True}},
        ),
        {"state": "Starting"},
    ),
    "a taken server is allocated": (seen(taken=SOMEBODY), {"state": "Allocated"}),
    "one whose allocation has ended is ready again": (
        seen(status={"state": "Allocated"}),
        {"state": "Ready"},
    ),
    "a game may take itself": (seen(status=said(allocated=True)), {"state": "Allocated"}),
    "an Allocation of an earlier server of this name goes": (
        seen(taken=replace(SOMEBODY, stale=True)),
        {"state": "Ready", "release": True},
    ),
    "a game may reserve itself for a while": (
        seen(status=said(reservedUntil=stamp(NOW + 5))),
        {"state": "Reserved"},
    ),
    "after that it is ready again": (
        seen(status=said(reservedUntil=stamp(NOW - 5))),
        {"state": "Ready"},
    ),
    "a server in maintenance is not given to anybody": (
        seen(spec={"operation": "Maintain"}),
        {"state": "Reserved"},
    ),
    "a game that ended well is Shutdown": (seen(DONE), {"state": "Shutdown"}),
    "a server alone whose game crashed gets another pod": (
        seen(ENDED, status={"state": "Ready"}),
        {"state": "Unhealthy", "delete": True},
    ),
    "one of a fleet is left for the fleet to replace": (
        seen(ENDED, fleet="arena", taken=SOMEBODY),
        {"state": "Unhealthy", "release": True},
    ),
    "the pod of a server alone has vanished: it gets another": (
        seen(None, status={"state": "Ready"}),
        {"create": True},
    ),
    "the pod of a server of a fleet has vanished": (
        seen(None, status={"state": "Allocated"}, fleet="arena", taken=SOMEBODY),
        {"state": "Unhealthy", "release": True},
    ),
    "one that rests after failures waits": (
        seen(None, status={"failures": {"count": 3, "until": stamp(NOW + 2)}}),
        {},
    ),
    "a pod that no node has a port for gets another port": (
        seen(replace(STARTING, trouble=True, no_port=True), spec=DYNAMIC),
        {"state": "Pending", "delete": True},
    ),
    "a Static port would be the same one again, so its pod waits for a node": (
        seen(replace(STARTING, trouble=True, no_port=True), spec=STATIC),
        {"state": "Pending"},
    ),
    "a budget that somebody deleted is made again": (
        seen(budget=False, status={"state": "Ready"}),
        {"budget": True, "state": "Ready"},
    ),
    "also while its game is asked to end": (
        seen(budget=False, deleting=True, taken=SOMEBODY),
        {"budget": True, "state": "Draining"},
    ),
    "a pod of an earlier server of this name is removed": (
        seen(replace(READY, orphan=True)),
        {"delete": True},
    ),
}
GOING: dict[str, tuple[Observed, dict[str, Any]]] = {
    "a deleted server is asked, and taken so that nobody else does": (
        seen(deleting=True, status={"state": "Ready"}),
        {"state": "Draining", "retire": True},
    ),
    "an allocated one is asked, and not taken": (
        seen(deleting=True, taken=SOMEBODY),
        {"state": "Draining"},
    ),
    "it stays while its game does not allow it": (
        seen(deleting=True, taken=NOBODY, status=ASKED),
        {"state": "Draining"},
    ),
    "it goes when its game allows it": (
        seen(deleting=True, taken=SOMEBODY, status={**ASKED, **said(allowed=NOW - 1)}),
        {"delete": True},
    ),
    "it stays while the game has not allowed it for long enough": (
        seen(
            deleting=True,
            taken=NOBODY,
            spec={"deletion": {"stabilization": "5s"}},
            status={**ASKED, **said(allowed=NOW - 1)},
        ),
        {"state": "Draining"},
    ),
    "it goes when its time is over": (
        seen(deleting=True, taken=SOMEBODY, status=OVER),
        {"delete": True},
    ),
    "it goes at once with allowForceDelete": (
        seen(deleting=True, taken=SOMEBODY, spec={"allowForceDelete": True}),
        {"delete": True},
    ),
    "an idle one goes at once with idle Allow": (
        seen(deleting=True, spec={"deletion": {"idle": "Allow"}}),
        {"retire": True, "delete": True},
    ),
    "an allocated one does not go with idle Allow": (
        seen(deleting=True, taken=SOMEBODY, spec={"deletion": {"idle": "Allow"}}),
        {"state": "Draining"},
    ),
    "one that took itself does not go with idle Allow": (
        seen(deleting=True, spec={"deletion": {"idle": "Allow"}}, status=said(allocated=True)),
        {"state": "Draining"},
    ),
    "it goes when its game has ended": (seen(ENDED, deleting=True), {"delete": True}),
    "it goes when its game has not begun": (
        seen(STARTING, deleting=True, taken=NOBODY),
        {"delete": True},
    ),
    "Kill does not ask": (
        seen(spec={"operation": "Kill"}, taken=SOMEBODY),
        {"state": "Draining", "delete": True},
    ),
    "Retire asks": (
        seen(spec={"operation": "Retire"}),
        {"state": "Draining", "retire": True},
    ),
    "a cordoned node asks": (
        seen(node=NodeFacts(cordoned=True)),
        {"state": "Draining", "retire": True},
    ),
    "a node that is in use again takes it back": (
        seen(taken=NOBODY, status=ASKED),
        {"state": "Ready", "release": True},
    ),
    "a NoExecute taint asks": (
        seen(replace(READY, evicted_by="maintenance"), taken=SOMEBODY),
        {"state": "Draining"},
    ),
    "what Kubernetes is about to disrupt is asked": (
        seen(replace(READY, disrupted="PreemptionByScheduler: x"), taken=SOMEBODY),
        {"state": "Draining"},
    ),
    "a game that wants to end goes": (
        seen(status=said(shutdown=True)),
        {"state": "Draining", "retire": True, "delete": True},
    ),
    "a game that is not well is asked to end": (
        seen(status=said(healthy=False), taken=SOMEBODY),
        {"state": "Unhealthy"},
    ),
    "a node that is silent for long makes it Unhealthy": (
        seen(node=LOST, taken=SOMEBODY),
        {"state": "Unhealthy"},
    ),
    "a node that is silent for a moment does not": (
        seen(node=NodeFacts(lost_since=NOW - 29), taken=SOMEBODY),
        {"state": "Allocated"},
    ),
    "in a namespace that ends nobody can take it": (
        seen(namespace_ends=True, status={"state": "Ready"}),
        {"state": "Draining"},
    ),
    "in a namespace that ends an Allocation counts": (
        seen(namespace_ends=True, taken=SOMEBODY, spec={"deletion": {"idle": "Allow"}}),
        {"state": "Draining"},
    ),
    "nothing is made in a namespace that ends": (seen(None, namespace_ends=True), {}),
    "a pod that is going is waited for": (
        seen(replace(READY, deleting=True), deleting=True, taken=NOBODY),
        {},
    ),
    "a game that ends because its pod is deleted has not ended by itself": (
        seen(replace(DONE, deleting=True), status=ASKED, taken=NOBODY),
        {},
    ),
    "a pod that somebody deleted makes its server Unhealthy": (
        seen(replace(READY, deleting=True), status={"state": "Ready"}),
        {"state": "Unhealthy"},
    ),
    "when the pod is gone the Allocation goes, and then the server": (
        seen(None, deleting=True, taken=NOBODY),
        {"release": True, "let_go": True},
    ),
    "a server alone that was retired gets no other pod": (
        seen(None, spec={"operation": "Retire"}, status=ASKED),
        {"state": "Shutdown"},
    ),
    "a server alone that was asked by others gets another pod": (
        seen(None, status=ASKED, taken=NOBODY),
        {"create": True, "release": True},
    ),
    "a server alone whose node was cordoned waits for the drain to see it gone": (
        seen(
            None,
            status={"state": "Draining", "shutdown": {"why": "NodeCordoned"}},
            taken=NOBODY,
        ),
        {"state": "Pending", "release": True},
    ),
    "one of a fleet that is taken is not given back": (
        seen(taken=NOBODY, status={"state": "Ready"}, fleet="arena"),
        {"state": "Ready"},
    ),
    "one of a fleet that was asked has ended": (
        seen(None, status=ASKED, taken=NOBODY, fleet="arena"),
        {"state": "Shutdown"},
    ),
    "a game that wanted to end stays ended": (
        seen(None, status={"state": "Draining", "shutdown": {"why": "GameShutdown"}}),
        {"state": "Shutdown"},
    ),
}


@pytest.mark.parametrize("sentence", LIVING)
def test_a_server_lives(sentence: str) -> None:
    observed, expected = LIVING[sentence]
    assert facts(plan_server(observed, NOW)) == expected


@pytest.mark.parametrize("sentence", GOING)
def test_a_server_goes(sentence: str) -> None:
    observed, expected = GOING[sentence]
    assert facts(plan_server(observed, NOW)) == expected


# All that wants a server gone while somebody plays on it, and the word for it.
ASKING: dict[str, Observed] = {
    "Deleted": seen(deleting=True, taken=SOMEBODY),
    "NamespaceDeleted": seen(namespace_ends=True, taken=SOMEBODY),
    "Retired": seen(spec={"operation": "Retire"}, taken=SOMEBODY),
    "NodeCordoned": seen(node=NodeFacts(cordoned=True), taken=SOMEBODY),
    "NodeTainted": seen(replace(READY, evicted_by="maintenance"), taken=SOMEBODY),
    "Disrupted": seen(replace(READY, disrupted="EvictionByEvictionAPI: x"), taken=SOMEBODY),
    "NodeLost": seen(node=LOST, taken=SOMEBODY),
    "Unhealthy": seen(status=said(healthy=False), taken=SOMEBODY),
}


def with_status(before: Observed, status: Any) -> Observed:
    return replace(before, server=replace(before.server, status=status))


@pytest.mark.parametrize("fleet", ["", "arena"], ids=["alone", "of a fleet"])
@pytest.mark.parametrize("why", ASKING)
def test_every_wait_has_an_end_and_says_who_why_and_until_when(why: str, fleet: str) -> None:
    asked = replace(ASKING[why], fleet=fleet)
    plan = plan_server(asked, NOW)
    assert not plan.delete_pod, "who plays is only asked"
    assert plan.status is not None
    assert plan.status.shutdown is not None
    end = NOW + 40 * 60
    assert (plan.status.shutdown.why, plan.status.shutdown.deadline) == (why, stamp(end))
    assert plan.deadline == end
    (draining,) = (each for each in plan.status.conditions if each.type == "Draining")
    assert (draining.status, draining.reason) == ("True", why)
    assert draining.message.endswith(f"is ended at {stamp(end)}")
    # A moment before it nothing happens, and then it ends, whatever the game says.
    asked = with_status(asked, plan.status)
    assert not plan_server(asked, end - 1).delete_pod
    assert plan_server(asked, end).delete_pod.endswith("its timeout of 40m is over")
    # Its game may allow it before.
    words = plan.status.game or GameSaid(pod="p1")
    allowed = replace(plan.status, allowed=Allowed(value=True, since=stamp(NOW)), game=words)
    assert plan_server(with_status(asked, allowed), NOW).delete_pod.endswith("the game allows it")


def test_a_timeout_is_as_long_as_the_author_says() -> None:
    plan = plan_server(seen(deleting=True, taken=SOMEBODY, spec={"timeout": "5m"}), NOW)
    assert plan.deadline == NOW + 300


def test_the_deadline_stays_when_the_plan_is_made_again() -> None:
    plan = plan_server(seen(deleting=True, taken=SOMEBODY, status=ASKED), NOW)
    assert plan.deadline == NOW + 2340
    assert plan.status is not None
    assert plan.status.shutdown is not None
    assert plan.status.shutdown.since == stamp(NOW - 60)


def test_a_clock_that_was_set_back_makes_nobody_wait_longer() -> None:
    far = {
        "state": "Draining",
        "shutdown": {"since": stamp(NOW + 9999), "deadline": stamp(NOW + 99999)},
    }
    plan = plan_server(seen(deleting=True, taken=SOMEBODY, status=far), NOW)
    assert plan.deadline is not None
    assert plan.deadline <= NOW + 2400


def test_where_nothing_can_be_created_the_api_server_is_asked_whether_it_is_taken() -> None:
    spec = {"deletion": {"idle": "Allow"}}
    plan = plan_server(seen(namespace_ends=True, spec=spec), NOW)
    assert plan.delete_pod
    assert plan.confirm_idle
    assert not plan.retire


def test_a_server_that_finds_no_port_is_not_tried_without_end_nor_rests_for_long() -> None:
    nowhere = replace(STARTING, trouble=True, no_port=True, text="no node has free ports")
    for before, rest in ((0, 0.0), (1, 1.0), (20, 30.0)):
        failures = {"count": before, "until": stamp(NOW - 1)} if before else None
        status = {"state": "Pending", **({"failures": failures} if failures else {})}
        plan = plan_server(seen(nowhere, spec=DYNAMIC, status=status), NOW)
        assert plan.status is not None
        assert plan.status.failures is not None
        assert plan.status.failures.count == before + 1
        assert plan.status.failures.until == stamp(NOW + rest)
        assert plan.status.failures.message == "no node has free ports"


def test_a_second_budget_over_the_same_pod_is_told_and_no_obstacle() -> None:
    plan = plan_server(seen(other_budget="mine"), NOW)
    assert plan.status is not None
    told = {each.type: each for each in plan.status.conditions}
    assert told["Ready"].status == "True"
    assert "PodDisruptionBudget mine" in told["TwoBudgets"].message
    # When it is gone, so is the word.
    status = msgspec.to_builtins(plan.status)
    plan = plan_server(seen(status=status), NOW)
    assert plan.status is not None
    assert "TwoBudgets" not in {each.type for each in plan.status.conditions}


def test_a_pod_that_a_silent_node_keeps_is_told() -> None:
    kept = replace(READY, deleting=True)
    silent = NodeFacts(lost_since=NOW - 5)
    plan = plan_server(seen(kept, status=ASKED, deleting=True, taken=NOBODY, node=silent), NOW)
    assert facts(plan) == {"state": "Draining"}
    assert plan.status is not None
    words = {each.type: each.message for each in plan.status.conditions}["PodReady"]
    assert "its node n1 does not answer" in words
    # And only once.
    again = msgspec.to_builtins(plan.status)
    plan = plan_server(seen(kept, status=again, deleting=True, taken=NOBODY, node=silent), NOW + 9)
    assert plan.status is not None
    assert msgspec.to_builtins(plan.status) == again


def test_rests_double_up_to_five_minutes() -> None:
    assert [rest_after(count) for count in (1, 2, 3, 4, 20, 2000)] == [0, 1, 2, 4, 300, 300]


def test_a_server_that_a_list_of_its_fleet_retires_needs_no_allocation_of_its_own() -> None:
    listed = Taken(uid="", retired=True)
    may_go = {"deletion": {"idle": "Allow"}}
    for game in (None, said(), said(released="a1")):
        plan = plan_server(seen(spec=may_go, deleting=True, taken=listed, status=game), NOW)
        assert plan.delete_pod
        assert not plan.retire
        assert not plan.release
