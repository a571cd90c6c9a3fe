"""Nodes report every few seconds; claims that wait look again only if that changes something."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewise.api.tenancy_slices import SliceClaim, SliceClaimSpec
from edgewise.kube.kinds.core import Node
from edgewise.runtime.caching.cache import Cache
from edgewise.tenancy.slices.claim_controller import SliceClaimController


def node(revision: int, *, ready: str = "True", cpu: str = "4") -> Node:
    condition = {"type": "Ready", "status": ready, "lastHeartbeatTime": f"{revision}"}
    return msgspec.convert(
        {
            "metadata": {"name": "n1", "resourceVersion": f"{revision}"},
            "status": {"conditions": [condition], "allocatable": {"cpu": cpu}},
        },
        Node,
    )


def test_a_report_of_a_node_wakes_no_claim() -> None:
    nodes: Cache[Node] = Cache(Node)
    claims: Cache[SliceClaim] = Cache(SliceClaim)
    claims.replace([SliceClaim.named("mine", "acme", spec=SliceClaimSpec(node_count=1))], "1")
    cache: Any = {Node: nodes, SliceClaim: claims}
    controller = SliceClaimController()

    def woken(new: Node, *, gone: bool = False) -> int:
        nodes.apply(new, deleted=gone)
        return len(list(controller.claims_that_wait(new, cache)))

    nodes.replace([], "1")
    assert woken(node(2)) == 1
    assert [woken(node(number)) for number in range(3, 100)] == [0] * 97
    assert woken(node(100, ready="False")) == 1
    assert woken(node(101)) == 1
    assert woken(node(102, cpu="8")) == 1
    assert woken(node(103), gone=True) == 1
    assert not controller._nodes
