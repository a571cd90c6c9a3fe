"""Nodes report every few seconds; placements look again only if that changes something."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewise.api.placement import LatencyPlacement, LatencyPlacementSpec, Target
from edgewise.kube.kinds.core import Node
from edgewise.placement.board import VoteBoard
from edgewise.placement.controller import PlacementController
from edgewise.runtime.caching.cache import Cache


def node(revision: int, *, ready: str = "True", labels: dict[str, str] | None = None) -> Node:
    condition = {"type": "Ready", "status": ready, "lastHeartbeatTime": f"{revision}"}
    return msgspec.convert(
        {
            "metadata": {"name": "n1", "resourceVersion": f"{revision}", "labels": labels or {}},
            "status": {"conditions": [condition]},
        },
        Node,
    )


def test_a_report_of_a_node_wakes_nobody() -> None:
    nodes: Cache[Node] = Cache(Node)
    placements: Cache[LatencyPlacement] = Cache(LatencyPlacement)
    spec = LatencyPlacementSpec(target=Target(name="web"))
    placements.replace([LatencyPlacement.named("web", "shop", spec=spec)], "1")
    cache: Any = {Node: nodes, LatencyPlacement: placements}
    controller = PlacementController(VoteBoard())

    def woken(new: Node, *, gone: bool = False) -> int:
        nodes.apply(new, deleted=gone)
        return len(list(controller.placements_of_node(new, cache)))

    nodes.replace([], "1")
    assert woken(node(2)) == 1
    assert [woken(node(number)) for number in range(3, 100)] == [0] * 97
    assert woken(node(100, ready="False")) == 1
    assert woken(node(101, ready="False", labels={"zone": "a"})) == 1
    assert woken(node(102), gone=True) == 1
    assert not controller._nodes
