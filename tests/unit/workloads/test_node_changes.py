"""Whether a change of a node matters to those who look at a part of it."""

from __future__ import annotations

from edgewise.kube.kinds.core import Node
from edgewise.workloads.node_changes import NodeChanges


def node(zone: str, note: str = "") -> Node:
    made = Node.named("n1")
    made.metadata.labels = {"zone": zone}
    made.metadata.annotations = {"note": note}
    return made


def test_only_what_is_looked_at_matters_and_what_is_gone_is_forgotten() -> None:
    changes = NodeChanges(lambda each: each.metadata.labels["zone"])
    first = node("a")
    key = first.key
    assert changes.matters(key, first)
    assert not changes.matters(key, node("a", "another"))
    assert changes.matters(key, node("b"))
    assert changes.matters(key, None)
    assert not changes.matters(key, None)
    assert len(changes) == 0
