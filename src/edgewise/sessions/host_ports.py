"""For `exposure: HostPort`: which ports of a node a pod gets, and on which node it should be.

The address of such a seat names the node. So that it holds when the pod is replaced, the
successor asks for the same ports, and would rather run on the same node; it need not, because
a pod elsewhere is worth more than an address at which nobody answers.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from edgewise.sessions.draft import Draft
from edgewise.sessions.endpoints import port_in
from edgewise.sessions.observed import PickPort
from edgewise.sessions.pods import ANYWHERE, Made, Spot


def spot_for(draft: Draft, made: Made, pod: str, client: str) -> Spot:
    """The place that `client` was told of, as far as it can still be had."""
    if made.revision.exposure != "HostPort":
        return ANYWHERE
    told = draft.clients[client].endpoints.get(made.template.name, {})
    kept: dict[str, int] = {}
    for port in made.revision.ports:
        number = port_in(told.get(port.name, ""))
        if number and not draft.seen.host_port_taken(number, draft.dead.keys()):
            kept[port.name] = number
    return Spot(pick_host_ports(made, pod, draft.seen.pick_host_port, kept), _node(draft, told))


def _node(draft: Draft, told: dict[str, str]) -> str:
    for url in told.values():
        node = draft.seen.nodes_by_address.get(urlsplit(url).hostname or "", "")
        if node not in draft.seen.lost_nodes:
            return node
    return ""


def pick_host_ports(
    made: Made, pod: str, pick: PickPort, kept: dict[str, int] | None = None
) -> dict[str, int]:
    """A port of the node for each exposed one; no two pods share any."""
    found = dict(kept or {})
    for port in made.revision.ports:
        if port.name in found:
            continue
        number = pick(port.protocol, f"{pod}/{port.name}", set(found.values()))
        if number is not None:
            found[port.name] = number
    return found
