"""Where a seat is reached: one function for each exposure.

While the endpoints do not work yet, it answers a sentence that says what they wait for, or an
empty one where that takes but a moment.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from edgewise.api.exposure import Port
from edgewise.api.sessions import ClientStatus, Revision
from edgewise.exposure.endpoints import leads_by, port_in, port_url, seat_in, seat_url
from edgewise.exposure.seats import SEAT_LENGTH, seat_id
from edgewise.exposure.site import Site
from edgewise.sessions.draft import Draft
from edgewise.sessions.orders import ClaimPort
from edgewise.sessions.seats.manifests import gateway_api_trouble
from edgewise.sessions.steps.children import seat_objects, seat_service_seen, wants_service
from edgewise.workloads.pods_seen import PodSeen

Endpoints = dict[str, str]

PORTS_AGAIN_SECONDS = 5.0
NO_ENTRY = (
    "the operator does not know where clients reach the gateway: set gateway.publicUrl in the "
    "values of the chart, or start the operator with --public-url"
)


def endpoints_of(
    draft: Draft, client: str, record: ClientStatus, pod: PodSeen, revision: Revision
) -> Endpoints | str:
    published = record.endpoints.get(revision.pod_template, {})
    match revision.exposure:
        case "Gateway":
            return _at_gateway(draft, client, revision, published)
        case "GatewayAPI":
            return _at_clusters_gateway(draft, client, pod, revision, published)
        case "NodePort" | "LoadBalancer":
            return _by_service(draft, client, pod, revision, published)
        case "HostPort":
            return _at_host(pod, revision)
        case _:
            return _inside(draft, client, pod, revision)


def at_another_entry(site: Site, revision: Revision, told: Endpoints) -> bool:
    """Whether our gateway is reached elsewhere than a client was told."""
    for port in revision.ports:
        url = told.get(port.name)
        if url is None:
            continue
        if port.protocol == "HTTP":
            now = seat_url(site, seat_in(url), port.name)
        else:
            now = port_url(port.protocol, site.public_host, port_in(url))
        if url != now:
            return True
    return False


def _at_gateway(
    draft: Draft, client: str, revision: Revision, published: Endpoints
) -> Endpoints | str:
    site, pod_template = draft.seen.site, revision.pod_template
    if not site.public_url or not site.public_host:
        draft.warn("NoPublicAddress", NO_ENTRY)
        return NO_ENTRY
    if revision.exposure == "GatewayAPI":
        # The cluster's own Gateway tells seats apart by path: the domain is our gateway's.
        site = msgspec.structs.replace(site, domain="")
    found: Endpoints = {}
    for port in revision.ports:
        if port.protocol == "HTTP":
            # The seat that was published stays, whatever became of the key it was made with.
            seat = seat_in(published.get(port.name, ""))
            if len(seat) != SEAT_LENGTH:
                uid = draft.seen.session.metadata.uid
                seat = seat_id(site.seat_key, uid, client, pod_template)
            found[port.name] = seat_url(site, seat, port.name)
            continue
        number = _public_port(draft, client, pod_template, port, published)
        if number is None:
            return no_port(port.protocol)
        found[port.name] = port_url(port.protocol, site.public_host, number)
    return found


def _at_clusters_gateway(
    draft: Draft, client: str, pod: PodSeen, revision: Revision, published: Endpoints
) -> Endpoints | str:
    site = draft.seen.site
    missing = gateway_api_trouble(site, revision.ports)
    if missing:
        draft.warn("GatewayApiMissing", missing)
        return missing
    found = _at_gateway(draft, client, revision, published)
    if isinstance(found, str):
        return found
    draft.tentative[client, revision.pod_template] = found
    if not _accepted(draft, client, pod, revision, found):
        return f"the Gateway {site.gateway} has not accepted the routes yet"
    return found


def no_port(protocol: str) -> str:
    """What is said of a client for which no public port is left."""
    return f"no public {protocol} port is free"


def _public_port(
    draft: Draft, client: str, pod_template: str, port: Port, published: Endpoints
) -> int | None:
    seen, holder = draft.seen, f"{client}/{pod_template}"
    claim = seen.port_claims.get((holder, port.name))
    old = published.get(port.name, "")
    number = port_in(old) if leads_by(port.protocol, old) else 0
    if number and (claim is None or claim.number == number):
        return number  # `_tend_ports` looks after the claim
    if claim is not None:
        # Claimed by an operator that ended before it could say so.
        order = ClaimPort(claim.number, port.protocol, holder, port.name, claim)
    else:
        seed = f"{seen.session.metadata.uid}/{holder}/{port.name}"
        picked = seen.free_ports.pick(port.protocol, seed, draft.picked)
        if picked is None:
            draft.warn("PortsExhausted", no_port(port.protocol))
            # Another session that gives one back does not tell this one.
            draft.due(draft.now + PORTS_AGAIN_SECONDS)
            return None
        order = ClaimPort(picked, port.protocol, holder, port.name)
    draft.picked.add(order.number)
    draft.claim_ports.append(order)
    return order.number


def _accepted(
    draft: Draft, client: str, pod: PodSeen, revision: Revision, endpoints: Endpoints
) -> bool:
    """Whether the cluster's own Gateway serves all of it."""
    for child in seat_objects(draft, client, pod.name, revision, endpoints):
        seen = draft.seen.children.get((child.kind, child.name))
        if seen is None or seen.digest != child.digest:
            return False
        if child.kind != "Service" and not seen.accepted:
            return False
    return True


def _by_service(
    draft: Draft, client: str, pod: PodSeen, revision: Revision, published: Endpoints
) -> Endpoints | str:
    """What the Service has now: a port or an address that it had before is not open any more."""
    service = seat_service_seen(draft, client, pod.name, revision)
    if service is None:
        return ""
    found: Endpoints = {}
    for port in revision.ports:
        if revision.exposure == "LoadBalancer":
            host, number = service.ingress, port.port
        else:
            host = _node_host(draft, pod, published.get(port.name, ""))
            number = service.node_ports.get(port.name, 0)
        if not host and revision.exposure == "LoadBalancer":
            return "its Service has no address from the cluster's load balancer yet"
        if not host or not number:
            return ""
        found[port.name] = port_url(port.protocol, host, number)
    return found


def _node_host(draft: Draft, pod: PodSeen, published: str) -> str:
    """Any node leads there, so the one that was published holds, while it answers."""
    seen = draft.seen
    if seen.site.node_host:
        return seen.site.node_host
    host = urlsplit(published).hostname or ""
    node = seen.nodes_by_address.get(host)
    if node is not None and node not in seen.lost_nodes:
        return host
    return seen.node_addresses.get(pod.node, "")


def _at_host(pod: PodSeen, revision: Revision) -> Endpoints | str:
    found: Endpoints = {}
    for port in revision.ports:
        protocol = "UDP" if port.protocol == "UDP" else "TCP"
        number = pod.host_ports.get((port.port, protocol))
        if number is None or not pod.host_ip:
            return ""
        found[port.name] = port_url(port.protocol, pod.host_ip, number)
    return found


def _inside(draft: Draft, client: str, pod: PodSeen, revision: Revision) -> Endpoints | str:
    host = draft.ip_of[pod.name]
    if wants_service(draft, revision):
        service = seat_service_seen(draft, client, pod.name, revision)
        if service is None:
            return ""
        host = f"{service.name}.{draft.seen.session.metadata.namespace}.svc"
    return {port.name: port_url(port.protocol, host, port.port) for port in revision.ports}
