"""What is known of nodes: a value, which is made again only when there is news."""

from __future__ import annotations

from typing import Any

from edgewise.kube.kinds.core import Node, NodeAddress, NodeStatus, ReportedCondition
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.caching.cache import Cache
from edgewise.workloads.node_loss import NodeIndex, NodesSeen


def node(name: str, address: str, *, ready: str = "True", beat: int = 1, **more: str) -> Node:
    addresses = [NodeAddress(type="InternalIP", address=address)]
    addresses += [NodeAddress(type=kind, address=each) for kind, each in more.items()]
    since = "2027-01-15T08:00:00Z"
    conditions = [ReportedCondition(type="Ready", status=ready, last_transition_time=since)]
    return Node(
        metadata=ObjectMeta(name=name, uid=name, resource_version=str(beat)),
        status=NodeStatus(addresses=addresses, conditions=conditions),
    )


class Nodes:
    def __init__(self, *nodes: Node) -> None:
        self.cache: Cache[Any] = Cache(Node)
        self.index = NodeIndex()
        self.index.follow(self.cache)
        self.cache.replace(list(nodes), "1")

    def seen(self) -> NodesSeen:
        return self.index.seen()


def test_the_best_address_of_a_node_is_told_and_all_lead_to_it() -> None:
    seen = Nodes(node("a", "10.0.0.1", ExternalIP="1.2.3.4")).seen()
    assert seen.addresses == {"a": "1.2.3.4"}
    assert seen.by_address == {"10.0.0.1": "a", "1.2.3.4": "a"}


def test_what_was_seen_does_not_change_under_whoever_looks_at_it() -> None:
    nodes = Nodes(node("a", "10.0.0.1"))
    before = nodes.seen()
    nodes.cache.apply(node("b", "10.0.0.2", beat=2))
    assert before == NodesSeen({}, {"a": "10.0.0.1"}, {"10.0.0.1": "a"})
    assert nodes.seen().addresses == {"a": "10.0.0.1", "b": "10.0.0.2"}


def test_a_heartbeat_is_no_news() -> None:
    nodes = Nodes(node("a", "10.0.0.1"))
    before = nodes.seen()
    nodes.cache.apply(node("a", "10.0.0.1", beat=2))
    assert nodes.seen() is before


def test_a_node_that_stops_to_answer_and_comes_back() -> None:
    nodes = Nodes(node("a", "10.0.0.1"))
    nodes.cache.apply(node("a", "10.0.0.1", ready="Unknown", beat=2))
    assert list(nodes.seen().lost) == ["a"]
    nodes.cache.apply(node("a", "10.0.0.1", beat=3))
    assert not nodes.seen().lost


def test_an_address_that_another_node_has_taken_over_is_not_forgotten_with_the_old_one() -> None:
    nodes = Nodes(node("old", "10.0.0.1"))
    nodes.cache.apply(node("new", "10.0.0.1", beat=2))
    nodes.cache.apply(node("old", "10.0.0.1", beat=3), deleted=True)
    assert nodes.seen().by_address == {"10.0.0.1": "new"}
