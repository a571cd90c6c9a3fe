"""Which nodes do not answer, since when, and where nodes can be reached."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from edgewise.kube.kinds.core import Node, NodeAddress
from edgewise.runtime.caching.cache import Cache
from edgewise.workloads.deadlines import moment

_BEST_ADDRESS = ("ExternalIP", "InternalIP", "Hostname")


class NodesSeen(msgspec.Struct, frozen=True):
    """The nodes at one moment."""

    lost: Mapping[str, float] = {}  # those that do not answer, and since when
    addresses: Mapping[str, str] = {}  # the best one of each
    by_address: Mapping[str, str] = {}


class NodeIndex:
    def __init__(self) -> None:
        self._lost: dict[str, float] = {}
        self._addresses: dict[str, str] = {}
        self._by_address: dict[str, str] = {}
        self._seen: NodesSeen | None = None
        self._following: Cache[Node] | None = None

    def follow(self, nodes: Cache[Node]) -> None:
        if self._following is not nodes:
            self._following = nodes
            nodes.subscribe(self._changed)

    def seen(self) -> NodesSeen:
        """Copied only after a node has changed, which is seldom: most of what a node reports
        is none of this."""
        if self._seen is None:
            self._seen = NodesSeen(dict(self._lost), dict(self._addresses), dict(self._by_address))
        return self._seen

    def _changed(self, old: Node | None, new: Node | None, _: bool) -> None:
        if old is not None and new is not None and _facts(old) == _facts(new):
            return
        self._seen = None
        if old is not None:
            self._lost.pop(old.metadata.name, None)
            self._addresses.pop(old.metadata.name, None)
            for each in old.status.addresses:
                # A node that took its place may have the address by now.
                if self._by_address.get(each.address) == old.metadata.name:
                    del self._by_address[each.address]
        if new is None:
            return
        name = new.metadata.name
        since = lost_since(new)
        if since is not None:
            self._lost[name] = since
        self._by_address |= dict.fromkeys((each.address for each in new.status.addresses), name)
        by_type = {address.type: address.address for address in new.status.addresses}
        for kind in _BEST_ADDRESS:
            if kind in by_type:
                self._addresses[name] = by_type[kind]
                return


def _facts(node: Node) -> tuple[float | None, list[NodeAddress]]:
    return lost_since(node), node.status.addresses


def lost_since(node: Node) -> float | None:
    """When a node stopped to answer; None while it does.

    The control plane says `Unknown` when a kubelet is silent. `False` is a kubelet that
    talks but has trouble: its pods go on, and say themselves how they are.
    """
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status == "Unknown":
            return moment(condition.last_transition_time) or 0.0
    return None
