"""Where a seat is reached: one function for each exposure.

While the endpoints do not work yet, it answers a sentence that says what they wait for, or an
empty one where that takes but a moment.
"""

from __future__ import annotations

from edgewise.api.sessions import ClientStatus, Port, Revision
from edgewise.sessions.children import seat_objects, seat_service_seen, wants_service
from edgewise.sessions.draft import Draft
from edgewise.sessions.endpoints import port_in, port_url, seat_url
from edgewise.sessions.exposure import gateway_api_trouble
from edgewise.sessions.observed import PodSeen
from edgewise.sessions.orders import ClaimPort
from edgewise.sessions.seats import seat_id

Endpoints = dict[str, str]


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


def _at_gateway(
    draft: Draft, client: str, revision: Revision, published: Endpoints
) -> Endpoints | str:
    site, pod_template = draft.seen.site, revision.pod_template
    found: Endpoints = {}
    for port in revision.ports:
        if port.protocol == "HTTP":
            old = published.get(port.name)
            if old is None:
                uid = draft.seen.session.metadata.uid
                old = seat_url(site, seat_id(site.seat_key, uid, client, pod_template), port.name)
            found[port.name] = old
            continue
        number = _public_port(draft, client, pod_template, port, published)
        if number is None:
            return ""
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


def _public_port(
    draft: Draft, client: str, pod_template: str, port: Port, published: Endpoints
) -> int | None:
    seen, holder = draft.seen, f"{client}/{pod_template}"
    claim = seen.port_claims.get((holder, port.name))
    number = port_in(published.get(port.name, ""))
    if number and (claim is None or claim.number == number):
        return number  # `_tend_ports` looks after the claim
    if claim is not None:
        # Claimed by an operator that ended before it could say so.
        order = ClaimPort(claim.number, port.protocol, holder, port.name, claim)
    else:
        seed = f"{seen.session.metadata.uid}/{holder}/{port.name}"
        picked = seen.pick_port(port.protocol, seed, draft.picked)
        if picked is None:
            draft.warn("PortsExhausted", f"no public {port.protocol} port is free")
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
    service = seat_service_seen(draft, client, pod.name, revision)
    if service is None:
        return ""
    found: Endpoints = {}
    for port in revision.ports:
        if revision.exposure == "LoadBalancer":
            host, number = service.ingress, port.port
        else:
            host = draft.seen.site.node_host or draft.seen.node_addresses.get(pod.node, "")
            number = service.node_ports.get(port.name, 0)
        old = published.get(port.name)
        if not host and revision.exposure == "LoadBalancer":
            return "its Service has no address from the cluster's load balancer yet"
        if not host or not number:
            return ""
        # Any node leads there, so a published address holds when the pod moves.
        found[port.name] = old or port_url(port.protocol, host, number)
    return found


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
