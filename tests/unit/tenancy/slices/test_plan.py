"""The life of a slice, in sentences."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from edgewise.api.tenancy import SLICE
from edgewise.api.tenancy_slices import (
    EMPTY_BY,
    GRACE,
    SLICE_ENDS,
    NodeRequirement,
    NodeTerm,
    Slice,
    SliceSpec,
    SliceStatus,
)
from edgewise.kube.kinds.core import Node, NodeSpec, NodeStatus, Pod, ReportedCondition, Taint
from edgewise.tenancy.slices.apply import node_patch
from edgewise.tenancy.slices.nodes import fits, picked
from edgewise.tenancy.slices.plan import NodeWrite, Plan, Step, plan
from edgewise.tenancy.slices.seen import NodeSeen, PodSeen, Seen

NOW = 1_000_000.0


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def node(
    name: str,
    *,
    label: str = "",
    taints: tuple[str, ...] = (),
    until: float | None = None,
    cpu: str = "4",
    ready: bool = True,
    **labels: str,
) -> Node:
    made = Node.named(
        name,
        spec=NodeSpec(taints=[Taint(key=key, value="s", effect="NoSchedule") for key in taints]),
        status=NodeStatus(
            allocatable={"cpu": cpu, "memory": "8Gi", "pods": "110"},
            conditions=[ReportedCondition(type="Ready", status="True" if ready else "False")],
        ),
    )
    made.metadata.resource_version = "7"
    made.metadata.labels = {**labels, **({SLICE: label} if label else {})}
    if until is not None:
        made.metadata.annotations = {EMPTY_BY: moment(until), GRACE: "60"}
    return made


def closed(name: str, until: float = NOW + 60, **more: Any) -> Node:
    return node(name, label="s", taints=(SLICE,), until=until, **more)


def ending(name: str, until: float = NOW + 60) -> Node:
    return node(name, label="s", taints=(SLICE, SLICE_ENDS), until=until)


def pod(name: str = "p", *, ends: float | None = None, own: int = 30) -> Pod:
    made = Pod.named(name, "other", spec={"terminationGracePeriodSeconds": own})
    if ends is not None:
        made.metadata.deletion_timestamp = moment(ends)
    return made


def on(each: Node, *pods: PodSeen, proven: bool = False) -> NodeSeen:
    return NodeSeen(node=each, pods=pods, proven=proven)


def foreign(**more: Any) -> PodSeen:
    return PodSeen(pod=pod(**more), foreign=True)


def inside(**more: Any) -> PodSeen:
    return PodSeen(pod=pod(**more), inside=True)


def slice_(
    count: int = 1, *, nodes: tuple[str, ...] = (), state: str = "", end: float | None = None
) -> Slice:
    expires = datetime.fromtimestamp(end, UTC) if end is not None else None
    spec = SliceSpec(node_count=count, expires_at=expires)
    return Slice.named("s", spec=spec, status=SliceStatus(nodes=[*nodes], state=state))


def seen(found: Slice | None, *held: NodeSeen, **more: Any) -> Seen:
    return Seen(name="s", slice=found, held=held, **more)


def steps(decided: Plan) -> list[tuple[str, str]]:
    return [(each.node.metadata.name, each.step.value) for each in decided.writes]


def state(decided: Plan) -> str:
    assert decided.status is not None
    return decided.status.state


def removed(decided: Plan) -> list[tuple[str, int, bool]]:
    return [(each.pod.metadata.name, each.grace, each.forced) for each in decided.removals]


Case = tuple[Seen, Callable[[Plan], object], object]

WRITES: dict[str, Case] = {
    "it takes as many nodes as it wants, the first by name": (
        seen(slice_(2), free=(node("a"), node("b"), node("c")), matching=3),
        steps,
        [("a", "reserve"), ("b", "reserve")],
    ),
    "with too few nodes it takes none": (
        seen(slice_(2), free=(node("a"),), matching=1),
        steps,
        [],
    ),
    "what was begun before a crash is finished": (
        seen(slice_(2), on(node("a", label="s")), free=(node("b"),), matching=2),
        steps,
        [("b", "reserve")],
    ),
    "what was begun and cannot be finished is given back": (
        seen(slice_(2), on(node("a", label="s")), matching=2),
        steps,
        [("a", "return")],
    ),
    "one that had all of its nodes keeps those that are left": (
        seen(slice_(2, nodes=("a", "b")), on(node("a", label="s")), matching=1),
        steps,
        [],
    ),
    "and takes another one when there is one": (
        seen(slice_(2, nodes=("a", "b")), on(node("a", label="s")), free=(node("c"),)),
        steps,
        [("c", "reserve")],
    ),
    "of too many it gives back those that came last": (
        seen(slice_(1, nodes=("b",)), on(node("a", label="s")), on(node("b", label="s"))),
        steps,
        [("a", "return")],
    ),
    "reserved nodes are open to everybody until a subnamespace uses the slice": (
        seen(slice_(), on(node("a", label="s"), foreign()), claimed=True),
        steps,
        [],
    ),
    "a subnamespace uses it: the nodes are closed": (
        seen(slice_(), on(node("a", label="s")), claimed=True, employed=True),
        steps,
        [("a", "close")],
    ),
    "a taint that somebody took away comes back": (
        seen(slice_(nodes=("a",), state="Provisioned"), on(node("a", label="s")), employed=True),
        steps,
        [("a", "close")],
    ),
    "the use is over: nothing more comes in": (
        seen(slice_(nodes=("a",)), on(closed("a"), inside()), claimed=True),
        steps,
        [("a", "end")],
    ),
    "while its pods end, the node waits": (
        seen(slice_(nodes=("a",)), on(ending("a"), inside()), claimed=True),
        steps,
        [],
    ),
    "its pods are gone: the node is open, and stays reserved": (
        seen(slice_(nodes=("a",)), on(ending("a"), proven=True), claimed=True),
        steps,
        [("a", "open")],
    ),
    "used again before it was open: it is closed to others alone": (
        seen(slice_(nodes=("a",)), on(ending("a"), inside()), claimed=True, employed=True),
        steps,
        [("a", "reopen")],
    ),
    "the slice is deleted: closed nodes end first": (
        seen(None, on(closed("a"), inside()), on(node("b", label="s"))),
        steps,
        [("a", "end"), ("b", "return")],
    ),
    "the slice is deleted and its pods are gone: the node is everybody's": (
        seen(None, on(ending("a"), proven=True)),
        steps,
        [("a", "return")],
    ),
    "a node is not given back before its pods were read": (
        seen(None, on(ending("a"))),
        lambda decided: (steps(decided), decided.prove),
        ([], ("a",)),
    ),
    "a label that somebody took away ends what the node is": (
        seen(slice_(), on(node("a", taints=(SLICE,), until=NOW)), free=(node("b"),)),
        steps,
        [("a", "end"), ("b", "reserve")],
    ),
    "expired: the slice goes, and its nodes with it": (
        seen(slice_(end=NOW - 1), on(closed("a"), inside()), claimed=True, employed=True),
        lambda decided: (decided.delete, steps(decided)),
        (True, [("a", "end")]),
    ),
    "one that was made for a claim goes with it": (
        seen(slice_(), on(node("a", label="s")), lost_claim=True),
        lambda decided: (decided.delete, steps(decided)),
        (True, [("a", "return")]),
    ),
}
PODS: dict[str, Case] = {
    "pods of others are evicted, with their own time to end": (
        seen(slice_(), on(closed("a"), foreign(), inside(name="q")), employed=True),
        removed,
        [("p", 30, False)],
    ),
    "but no more of it than the slice grants": (
        seen(slice_(), on(closed("a", until=NOW + 7), foreign(own=3600)), employed=True),
        removed,
        [("p", 7, False)],
    ),
    "what is left after the grace is deleted": (
        seen(slice_(), on(closed("a", until=NOW - 1), foreign()), employed=True),
        removed,
        [("p", 2, True)],
    ),
    "one that ends is left alone": (
        seen(slice_(), on(closed("a"), foreign(ends=NOW + 20)), employed=True),
        removed,
        [],
    ),
    "unless it takes longer than the grace": (
        seen(slice_(), on(closed("a", until=NOW), foreign(ends=NOW + 500)), employed=True),
        removed,
        [("p", 2, True)],
    ),
    "and nothing is deleted twice": (
        seen(slice_(), on(closed("a", until=NOW), foreign(ends=NOW + 2)), employed=True),
        removed,
        [],
    ),
    "at the end the slice's own pods go": (
        seen(None, on(ending("a"), inside(), PodSeen(pod=pod("q")))),
        removed,
        [("p", 30, False)],
    ),
    "without its time written down, the time is over": (
        seen(slice_(), on(node("a", label="s", taints=(SLICE,)), foreign()), employed=True),
        removed,
        [("p", 2, True)],
    ),
}
STATES: dict[str, Case] = {
    "without nodes it has failed for now": (
        seen(slice_(2), free=(node("a"),), matching=1),
        state,
        "Failed/NodesShort",
    ),
    "with its nodes it is reserved": (seen(slice_(), on(node("a", label="s"))), state, "Reserved"),
    "with a claim it is bound": (
        seen(slice_(), on(node("a", label="s")), claimed=True),
        state,
        "Bound",
    ),
    "while pods of others are there it is not provisioned": (
        seen(slice_(), on(closed("a"), foreign(ends=NOW + 2)), claimed=True, employed=True),
        state,
        "Bound",
    ),
    "nor while it is not proven that they are gone": (
        seen(slice_(), on(closed("a")), claimed=True, employed=True),
        state,
        "Bound",
    ),
    "when all are gone it is provisioned": (
        seen(slice_(), on(closed("a"), inside(), proven=True), claimed=True, employed=True),
        state,
        "Provisioned",
    ),
    "a pod that was bound late makes it wait again": (
        seen(
            slice_(nodes=("a",), state="Provisioned"),
            on(closed("a", until=NOW - 9), foreign(), proven=True),
            claimed=True,
            employed=True,
        ),
        lambda decided: (state(decided), removed(decided)),
        ("Bound", [("p", 2, True)]),
    ),
    "a node that is lost is said": (
        seen(slice_(2, nodes=("a", "b"), state="Bound"), on(node("a", label="s")), claimed=True),
        lambda decided: (state(decided), decided.status and decided.status.nodes),
        ("Failed/NodesShort", ["a"]),
    ),
}


@pytest.mark.parametrize("sentence", [*WRITES, *PODS, *STATES])
def test_a_slice(sentence: str) -> None:
    given, look, expected = {**WRITES, **PODS, **STATES}[sentence]
    assert look(plan(given, NOW)) == expected


def test_too_few_nodes_get_a_sentence_with_the_numbers() -> None:
    status = plan(seen(slice_(3), free=(node("a"),), matching=2), NOW).status
    assert status is not None
    assert status.conditions[0].message == (
        "spec.nodeCount: 3 wanted; 2 nodes match spec.selector and spec.resources, and 1 of them "
        "is in no slice"
    )


def test_a_plan_wakes_when_the_grace_is_over_and_when_the_slice_is() -> None:
    given = seen(slice_(end=NOW + 500), on(closed("a", until=NOW + 9), foreign()), employed=True)
    assert plan(given, NOW).wake_at == NOW + 9
    given = seen(slice_(end=NOW + 500), on(node("a", label="s")))
    assert plan(given, NOW).wake_at == NOW + 500


@pytest.mark.parametrize(
    "written",
    ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-01-01T00:00:00", "x"],
)
def test_a_node_is_emptied_in_time_whatever_moment_is_written_there(written: str) -> None:
    found = on(closed("a"), foreign())
    found.node.metadata.annotations = {EMPTY_BY: written, GRACE: "9" * 5000}
    ending = plan(seen(slice_(), found, employed=True), NOW)
    assert [each.forced for each in ending.removals] == [True]
    assert all(each.grace <= 86_400 for each in plan(seen(None, found), NOW).writes)


# Writes -----------------------------------------------------------------------------------


def test_every_write_names_the_version_of_the_node() -> None:
    for step in Step:
        write = NodeWrite(node=closed("a"), step=step, slice="s", empty_by=NOW)
        assert node_patch(write)["metadata"]["resourceVersion"] == "7"


def test_taints_of_others_stay_word_for_word() -> None:
    theirs = Taint(key="x", effect="NoExecute", time_added="2030-01-01T00:00:00Z")
    each = closed("a")
    each.spec.taints.insert(0, theirs)
    write = NodeWrite(node=each, step=Step.RETURN, slice="s")
    patch = node_patch(write)
    assert patch["spec"]["taints"] == [
        {"key": "x", "effect": "NoExecute", "timeAdded": "2030-01-01T00:00:00Z"}
    ]
    assert patch["metadata"]["labels"] == {SLICE: None}
    assert patch["metadata"]["annotations"] == {EMPTY_BY: None, GRACE: None}


def test_a_node_that_another_slice_has_reserved_keeps_that_label() -> None:
    each = node("a", label="t", taints=(SLICE,))
    patch = node_patch(NodeWrite(node=each, step=Step.RETURN, slice="s"))
    assert "labels" not in patch["metadata"]


# Nodes ------------------------------------------------------------------------------------

FITS: dict[str, tuple[Node, dict[str, Any], bool]] = {
    "any node, without a selector": (node("a"), {}, True),
    "one with the labels": (
        node("a", zone="x"),
        {"selector": [NodeTerm(match_labels={"zone": "x"})]},
        True,
    ),
    "not one with others": (
        node("a", zone="y"),
        {"selector": [NodeTerm(match_labels={"zone": "x"})]},
        False,
    ),
    "one of several terms is enough": (
        node("a", zone="y"),
        {"selector": [NodeTerm(match_labels={"zone": z}) for z in "xy"]},
        True,
    ),
    "with enough of what is wanted": (node("a", cpu="4"), {"resources": {"cpu": "3500m"}}, True),
    "not with less": (node("a", cpu="2"), {"resources": {"cpu": 4}}, False),
    "not with none of it": (node("a"), {"resources": {"example.com/gpu": 1}}, False),
    "not one that is not ready": (node("a", ready=False), {}, False),
    "not one of the control plane": (
        node("a", taints=("node-role.kubernetes.io/control-plane",)),
        {},
        False,
    ),
}


@pytest.mark.parametrize("sentence", FITS)
def test_a_slice_takes(sentence: str) -> None:
    each, wanted, expected = FITS[sentence]
    assert fits(each, SliceSpec(node_count=1, **wanted)) is expected


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["3"], True),
        ("NotIn", ["3"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["2"], True),
        ("Lt", ["2"], False),
        ("Gt", ["many"], False),
    ],
)
def test_expressions_mean_what_they_mean_to_the_scheduler(
    operator: Any, values: list[str], expected: bool
) -> None:
    asked = NodeRequirement(key="level", operator=operator, values=values)
    spec = SliceSpec(node_count=1, selector=[NodeTerm(match_expressions=[asked])])
    assert fits(node("a", level="3"), spec) is expected


def test_nodes_in_a_slice_match_and_are_not_free() -> None:
    free, matching = picked([node("b"), node("a", label="t"), node("c")], SliceSpec(node_count=1))
    assert ([each.metadata.name for each in free], matching) == (["b", "c"], 3)
