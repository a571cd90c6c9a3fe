"""Sentinels made of pod templates, and what pods get before they end."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.api.placement import LatencyPlacement, LatencyPlacementSpec, Target
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.core import Node, NodeSpec, Taint
from edgewise.kube.objects import ObjectMeta
from edgewise.placement.admission import problems
from edgewise.placement.templates import fits, same_template, sentinel_pod, with_drain, within

PLACED = LatencyPlacement(
    metadata=ObjectMeta(name="web", namespace="n", uid="p"),
    spec=LatencyPlacementSpec(target=Target(name="web")),
)
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web", "pod-template-hash": "abc"}},
    "spec": {"containers": [{"name": "web", "image": "web"}]},
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def terms(spec: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return found


def test_a_sentinel_is_ours_has_the_labels_and_no_hash() -> None:
    pod = sentinel_pod(PLACED, TEMPLATE, "s-0", ["n1"])
    assert pod.metadata.labels == {"app": "web"}
    (owner,) = pod.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("LatencyPlacement", "p", True)
    assert terms(pod.spec)[0]["matchExpressions"][0]["values"] == ["n1"]
    assert pod.spec["containers"][0]["lifecycle"]["preStop"] == {"sleep": {"seconds": 5}}
    assert "lifecycle" not in TEMPLATE["spec"]["containers"][0]


def test_the_nodes_are_added_to_every_term_of_an_affinity() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    field = {"key": "metadata.name", "operator": "In", "values": ["x"]}
    spec = {
        "affinity": {
            "podAntiAffinity": {"kept": True},
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [zone]},
                        {"matchFields": [field]},
                        {},
                    ]
                }
            },
        }
    }
    made = within(spec, ["n1", "n2"])
    first, second, empty = terms(made)
    assert [each["key"] for each in first["matchExpressions"]] == ["zone", "kubernetes.io/hostname"]
    assert [each["key"] for each in second["matchExpressions"]] == ["kubernetes.io/hostname"]
    assert empty == {}  # it fits no node, and must not begin to
    assert made["affinity"]["podAntiAffinity"] == {"kept": True}


@pytest.mark.parametrize(
    ("spec", "grace"),
    [
        ({"containers": [{"name": "a"}]}, 35),
        ({"containers": [{"name": "a"}], "terminationGracePeriodSeconds": 0}, 5),
        ({"containers": [{"name": "a"}], "terminationGracePeriodSeconds": 60}, 65),
    ],
)
def test_the_grace_period_grows_by_the_pause(spec: dict[str, Any], grace: int) -> None:
    made = with_drain(spec, 5)
    assert made is not None
    assert made["terminationGracePeriodSeconds"] == grace


def test_a_pre_stop_of_the_author_stays() -> None:
    own = {"name": "a", "lifecycle": {"preStop": {"exec": {"command": ["bye"]}}}}
    assert with_drain({"containers": [own]}, 5) is None
    made = with_drain({"containers": [own, {"name": "b"}]}, 5)
    assert made is not None
    assert made["containers"][0] == own
    assert with_drain({"containers": [{"name": "b"}]}, 0) is None


def test_the_hash_does_not_make_another_template() -> None:
    bare = {**TEMPLATE, "metadata": {"labels": {"app": "web"}, "creationTimestamp": None}}
    assert same_template(TEMPLATE, bare)
    assert not same_template(TEMPLATE, {**bare, "spec": {}})


def node(name: str, taint: Taint | None = None, **labels: str) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(taints=[taint] if taint else []),
    )


GPU = Taint(key="gpu", effect="NoSchedule", value="yes")


@pytest.mark.parametrize(
    ("one", "spec", "selector", "takes"),
    [
        (node("a"), {}, {}, True),
        (node("a", zone="x"), {}, {"zone": "x"}, True),
        (node("a", zone="y"), {}, {"zone": "x"}, False),
        (node("a"), {"nodeSelector": {"disk": "ssd"}}, {}, False),
        (node("a", GPU), {}, {}, False),
        (node("a", GPU), {"tolerations": [{"key": "gpu", "operator": "Exists"}]}, {}, True),
        (node("a", GPU), {"tolerations": [{"key": "gpu", "value": "no"}]}, {}, False),
        (node("a", GPU), {"tolerations": [{"operator": "Exists"}]}, {}, True),
        (node("a", Taint(key="node.kubernetes.io/x", effect="NoExecute")), {}, {}, True),
    ],
)
def test_which_nodes_take_a_pod(
    one: Node, spec: dict[str, Any], selector: dict[str, str], takes: bool
) -> None:
    assert fits(one, spec, selector) is takes


LABELLED = {"metadata": {"labels": {"placement.edgewise.dev/name": "web"}}, "spec": {}}
NODES = [node(f"n{number}") for number in range(4)]

REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no label": ({}, {"template": {"metadata": {"labels": {}}}}, "needs the label"),
    "Recreate": ({}, {"strategy": {"type": "Recreate"}}, "spec.target: Deployment web has the str"),
    "more sentinels than nodes": ({"sentinels": 4}, {}, "spec.sentinels: 4 are more than the 3"),
    "replicas leave fewer": ({"sentinels": 2}, {"replicas": 3}, "spec.sentinels: 2 are more"),
    "a trigger shorter than a search": ({"trigger": "5s"}, {}, "spec.trigger: 5s is not longer"),
    "an overload without room": (
        {"max_overload_percent": 120},
        {"replicas": 2},
        "spec.maxOverloadPercent: 120 leaves no room for a sentinel; it takes 150",
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_refused_names_its_field(sentence: str) -> None:
    spec, target, says = REFUSED[sentence]
    placed = LatencyPlacement(
        metadata=PLACED.metadata, spec=LatencyPlacementSpec(target=Target(name="web"), **spec)
    )
    deployment = Deployment(spec={"template": LABELLED, **target})
    assert any(says in each for each in problems(placed, deployment, NODES))


def test_what_fits_is_not_refused() -> None:
    assert list(problems(PLACED, Deployment(spec={"template": LABELLED}), NODES)) == []


def test_a_selector_that_no_node_has() -> None:
    from edgewise.api.placement import Nodes

    placed = LatencyPlacement(
        metadata=PLACED.metadata,
        spec=LatencyPlacementSpec(target=Target(name="web"), nodes=Nodes(selector={"a": "b"})),
    )
    (said,) = problems(placed, Deployment(spec={"template": LABELLED}), NODES)
    assert said.startswith("spec.nodes.selector: no node")
