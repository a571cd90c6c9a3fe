"""For `exposure: HostPort`: which ports of a node a pod gets, and on which node it should be.

The address of such a seat names the node. So that it holds when the pod is replaced, the
successor asks for the same ports, and would rather run on the same node; it need not, because
a pod elsewhere is worth more than an address at which nobody answers.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from edgewise.exposure.endpoints import port_in
from edgewise.sessions.draft import Draft
from edgewise.sessions.pods import ANYWHERE, Made, Spot
from edgewise.workloads.host_ports import pick_host_ports


def spot_for(draft: Draft, made: Made, pod: str, client: str) -> Spot:
    """The place that `client` was told of, as far as it can still be had."""
    if made.revision.exposure != "HostPort":
        return ANYWHERE
    told = draft.clients[client].endpoints.get(made.template.name, {})
    kept: dict[str, int] = {}
    for port in made.revision.ports:
        number = port_in(told.get(port.name, ""))
        if number and not draft.seen.host_ports.taken(number, draft.dead.keys()):
            kept[port.name] = number
    ports = pick_host_ports(made.revision.ports, pod, draft.seen.host_ports.pick, kept)
    return Spot(ports, _node(draft, told))


def _node(draft: Draft, told: dict[str, str]) -> str:
    for url in told.values():
        node = draft.seen.nodes_by_address.get(urlsplit(url).hostname or "", "")
        if node not in draft.seen.lost_nodes:
            return node
    return ""
