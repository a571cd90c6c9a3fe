"""The namespaces of a tree that have nodes of their own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.tenancy import SLICE, STATE, SubNamespaceStatus
from edgewise.api.tenancy_slices import SliceClaim, SliceClaimSpec, SliceClaimStatus
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.kinds.rbac import RoleBinding
from edgewise.tenancy.orders import Correct, Create
from edgewise.tenancy.quota.gather import tree_quota_of
from edgewise.tenancy.quota.quantities import amounts
from edgewise.tenancy.tree.plan import Plan, plan
from edgewise.tenancy.tree.seen import Branch, Tree
from tests.unit.tenancy.test_tree_plan import AROUND, NOW, child, core, made, source, tenant

change = msgspec.structs.replace
ALL = ("namespace", "policy", "binding")


def claim(state: str, name: str = "s", **status: Any) -> SliceClaim:
    told = SliceClaimStatus(state=state, slice=name, **status)
    return SliceClaim.named("lab", "acme", spec=SliceClaimSpec(node_count=1), status=told)


def inside(found: SliceClaim | None, name: str = "s", **spec: Any) -> Branch:
    asked = source("team", slice_claim="lab", **spec)
    return child(asked, claim=found, slice=name)


def tree(branch: Branch) -> Tree:
    root = made(core(), *ALL)
    return Tree(tenant=tenant(), branches={"acme": root, branch.name: branch}, around=AROUND)


def look(branch: Branch) -> Plan:
    return plan(tree(branch), NOW)


def orders(decided: Plan) -> list[str]:
    return [
        f"{type(each).__name__} {(each.made if isinstance(each, Create) else each.found).KIND.kind}"
        for each in decided.orders
        if isinstance(each, Create | Correct)
    ]


def state(decided: Plan) -> str:
    told = [each.status for each in decided.says if isinstance(each.status, SubNamespaceStatus)]
    return told[0].state if told else ""


def told(branch: Branch, state: str) -> Branch:
    """Its namespace says so already."""
    if branch.namespace is not None:
        branch.namespace.metadata.annotations[STATE] = state
    return branch


CASES: dict[str, tuple[Branch, list[str], str]] = {
    "without its claim it is not made": (inside(None, ""), [], "Failed/SliceMissing"),
    "nor while the claim has no nodes": (
        inside(claim("Requested")),
        [],
        "Failed/SliceMissing",
    ),
    "its nodes are set apart: it is made": (inside(claim("Bound")), ["Create Namespace"], ""),
    "nobody is let in while others' pods are on its nodes": (
        told(made(inside(claim("Bound")), "namespace", "policy"), "Failed/SliceNotReady"),
        [],
        "Failed/SliceNotReady",
    ),
    "when they are gone, people come in": (
        made(inside(claim("Employed")), "namespace", "policy"),
        ["Create RoleBinding"],
        "",
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_a_namespace_in_a_slice(sentence: str) -> None:
    branch, wanted, said = CASES[sentence]
    decided = look(branch)
    assert (orders(decided), state(decided)) == (wanted, said)


def test_the_label_says_which_slice() -> None:
    (order,) = look(inside(claim("Bound"))).orders
    assert isinstance(order, Create)
    assert isinstance(order.made, Namespace)
    assert order.made.metadata.labels[SLICE] == "s"
    moved = made(inside(claim("Bound", "before"), "before"), "namespace")
    decided = look(change(inside(claim("Bound")), namespace=moved.namespace))
    assert orders(decided) == ["Correct Namespace"]


def test_who_is_in_stays_when_the_slice_is_gone() -> None:
    branch = made(inside(None), *ALL)
    assert isinstance(branch.binding, RoleBinding)
    assert all(not isinstance(each, Create) for each in look(branch).orders)


NAMES = amounts({"cpu": 0, "memory": 0, "count/configmaps": 0})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"cpu": "4", "memory": "8"}),
        ({"resources": {"cpu": 1}}, {"cpu": "1"}),
    ],
)
def test_it_gets_what_the_nodes_have_unless_it_asks_for_something(
    spec: dict[str, Any], expected: dict[str, str]
) -> None:
    held = claim("Bound", resources={"cpu": "4", "memory": "8", "pods": "110"})
    quota, wrong = tree_quota_of(tree(inside(held, **spec)), NAMES)
    assert not wrong
    assert quota.children["acme"]["team-x"].amounts == amounts(expected)


def test_it_takes_nothing_of_the_quota_before_its_nodes_are_set_apart() -> None:
    quota, _ = tree_quota_of(tree(inside(claim("Pending", ""))), NAMES)
    assert not quota.children["acme"]["team-x"].asked
