"""What is seen of pods, nodes and budgets: whoever wants a server gone shows here first."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.gameservers.server.observe import covers, see_node, see_pod, untolerated
from edgewise.kube.kinds.core import Node, Pod
from edgewise.kube.kinds.policy import PodDisruptionBudget

TAINT = {"key": "maintenance", "value": "now", "effect": "NoExecute"}


def node(**spec: Any) -> Node:
    addresses = [
        {"type": "Hostname", "address": "n1"},
        {"type": "InternalIP", "address": "10.0.0.1"},
    ]
    return msgspec.convert(
        {"metadata": {"name": "n1"}, "spec": spec, "status": {"addresses": addresses}}, Node
    )


def pod(spec: dict[str, Any] | None = None, **status: Any) -> Pod:
    meta = {"name": "one-pod", "namespace": "play", "uid": "p1"}
    return msgspec.convert({"metadata": meta, "spec": spec or {}, "status": status}, Pod)


TOLERATING: dict[str, tuple[list[dict[str, Any]], str]] = {
    "nothing": ([], "maintenance"),
    "another taint": ([{"key": "other", "operator": "Exists"}], "maintenance"),
    "the taint with another value": ([{"key": "maintenance", "value": "later"}], "maintenance"),
    "the taint for a while": (
        [{"key": "maintenance", "operator": "Exists", "tolerationSeconds": 60}],
        "maintenance",
    ),
    "the taint for scheduling only": (
        [{"key": "maintenance", "operator": "Exists", "effect": "NoSchedule"}],
        "maintenance",
    ),
    "the taint": ([{"key": "maintenance", "value": "now", "effect": "NoExecute"}], ""),
    "the taint, whatever its value": ([{"key": "maintenance", "operator": "Exists"}], ""),
    "everything": ([{"operator": "Exists"}], ""),
}


@pytest.mark.parametrize("what", TOLERATING)
def test_who_tolerates(what: str) -> None:
    tolerations, evicted_by = TOLERATING[what]
    assert untolerated(node(taints=[TAINT]), {"tolerations": tolerations}) == evicted_by


def test_a_taint_that_ends_nobody_is_none() -> None:
    tainted = node(taints=[{**TAINT, "effect": "NoSchedule"}, {**TAINT, "key": "b"}])
    assert untolerated(tainted, {}) == "b"
    assert untolerated(node(), {}) == ""


def test_a_pod_that_kubernetes_is_about_to_remove_says_why() -> None:
    about_to = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "a pod of more priority comes",
    }
    facts = see_pod(pod(phase="Running", conditions=[about_to]), None)
    assert facts.disrupted == "PreemptionByScheduler: a pod of more priority comes"
    passed = see_pod(pod(phase="Running", conditions=[{**about_to, "status": "False"}]), None)
    assert passed.disrupted == ""


def test_a_pod_without_a_node_is_evicted_by_none() -> None:
    assert see_pod(pod(phase="Pending"), None).evicted_by == ""
    assert see_pod(pod(phase="Running"), node(taints=[TAINT])).evicted_by == "maintenance"


PHASES: dict[str, tuple[bool, bool, bool, bool]] = {  # started, running, ended, succeeded
    "": (False, False, False, False),
    "Pending": (False, False, False, False),
    "Running": (True, True, False, False),
    "Succeeded": (True, False, True, True),
    "Failed": (True, False, True, False),
    "Unknown": (True, False, False, False),
}


@pytest.mark.parametrize("phase", PHASES)
def test_phases(phase: str) -> None:
    found = see_pod(pod(phase=phase, conditions=[{"type": "Ready", "status": "True"}]), None)
    assert (found.started, found.running, found.ended, found.succeeded) == PHASES[phase]
    assert found.ready is not found.ended, "what has ended is not ready, whatever it said before"


def test_a_pod_that_finds_no_port_is_told_from_one_that_finds_no_memory() -> None:
    def waits(message: str) -> bool:
        unschedulable = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        return see_pod(pod(phase="Pending", conditions=[unschedulable]), None).no_port

    assert waits("0/2 nodes are available: 2 node(s) didn't have free ports for the pod ports.")
    assert not waits("0/2 nodes are available: 2 Insufficient memory.")


def test_the_address_of_a_node_is_the_one_that_players_reach() -> None:
    found = node(unschedulable=True)
    assert see_node(found).address == "10.0.0.1"
    assert see_node(found).cordoned
    found.status.addresses[0].type = "ExternalIP"
    assert see_node(found).address == "n1"
    assert see_node(None).address == ""
    found.status.addresses.clear()
    assert see_node(found).address == ""


@pytest.mark.parametrize(
    ("spec", "covered"),
    [
        ({}, False),
        ({"selector": None}, False),
        ({"selector": {}}, True),
        ({"selector": {"matchLabels": {"server": "one"}}}, True),
        ({"selector": {"matchLabels": {"server": "two"}}}, False),
    ],
)
def test_which_pods_a_budget_covers(spec: dict[str, Any], covered: bool) -> None:
    budget = PodDisruptionBudget.named("mine", "play", spec=spec)
    assert covers(budget, {"server": "one"}) is covered
