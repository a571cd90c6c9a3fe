"""Which nodes do not answer, since when, and where nodes can be reached."""

from __future__ import annotations

from edgewise.kube.core import Node
from edgewise.runtime.cache import Cache
from edgewise.sessions.deadlines import moment

_BEST_ADDRESS = ("ExternalIP", "InternalIP", "Hostname")


class NodeBook:
    def __init__(self) -> None:
        self.lost: dict[str, float] = {}
        self.addresses: dict[str, str] = {}
        self.by_address: dict[str, str] = {}
        self._following: Cache[Node] | None = None

    def follow(self, nodes: Cache[Node]) -> None:
        if self._following is not nodes:
            self._following = nodes
            nodes.subscribe(self._changed)

    def _changed(self, old: Node | None, new: Node | None, _: bool) -> None:
        if old is not None:
            self.lost.pop(old.metadata.name, None)
            self.addresses.pop(old.metadata.name, None)
            for each in old.status.addresses:
                self.by_address.pop(each.address, None)
        if new is None:
            return
        name = new.metadata.name
        since = lost_since(new)
        if since is not None:
            self.lost[name] = since
        self.by_address |= dict.fromkeys((each.address for each in new.status.addresses), name)
        by_type = {address.type: address.address for address in new.status.addresses}
        for kind in _BEST_ADDRESS:
            if kind in by_type:
                self.addresses[name] = by_type[kind]
                return


def lost_since(node: Node) -> float | None:
    """When a node stopped to answer; None while it does.

    The control plane says `Unknown` when a kubelet is silent. `False` is a kubelet that
    talks but has trouble: its pods go on, and say themselves how they are.
    """
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status == "Unknown":
            return moment(condition.last_transition_time) or 0.0
    return None
