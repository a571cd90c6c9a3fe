"""Addresses: what a client is told, and when it may count on it.

An endpoint is published when it works, and then stays: the seat decides it, not the pod.
"""

from __future__ import annotations

import msgspec

from edgewise.api.sessions import ClientStatus, Revision
from edgewise.sessions.digest import (
    LOST,
    NOT_READY,
    READY,
    RECOVERING,
    STARTING,
    WITHOUT_SEATS,
)
from edgewise.sessions.draft import Draft
from edgewise.sessions.observed import PodSeen
from edgewise.sessions.orders import ClaimPort, FreePort, Publication
from edgewise.sessions.places import Endpoints, endpoints_of
from edgewise.sessions.routes import Seat, seat_routes
from edgewise.sessions.seats import seat_id, seat_token, token_hash

# Of these exposures, the gateway serves each TCP and UDP port of a seat at a port of its own.
WITH_PUBLIC_PORTS = frozenset(("Gateway", "GatewayAPI"))


def address_clients(draft: Draft) -> None:
    for client in sorted(_pending(draft)):
        if draft.clients[client].phase not in WITHOUT_SEATS:
            _address(draft, client)
    _tend_ports(draft)


def _pending(draft: Draft) -> set[str]:
    """Clients whose readiness may have changed."""
    found = draft.digest.pending | draft.touched
    pods = draft.seen.pods
    changed = pods if draft.changed_pods is None else pods.keys() & draft.changed_pods
    for name in changed:
        before = draft.old_ip_of.get(name)
        if before and (not draft.seen.pods[name].ready or before != draft.ip_of.get(name)):
            found.update(client for client, _ in draft.occupants.get(name, ()))
    if draft.workload.seat_tokens and not draft.digest.tokens:
        found.update(
            client
            for client, record in draft.clients.items()
            if record.endpoints.keys() - record.tokens.keys()
        )
    draft.digest.tokens = draft.workload.seat_tokens
    return found & draft.clients.keys()


def _address(draft: Draft, client: str) -> None:
    record = draft.clients[client]
    places = _ready_places(draft, record)
    if places is None:
        trouble = next(
            (
                pod.trouble
                for name in record.pods.values()
                if (pod := draft.pod(name)) and pod.trouble
            ),
            "",
        )
        if trouble:
            draft.warn("PodsNotStarting", trouble)
        draft.set_client(client, _waiting(draft, client, record, trouble))
        return
    endpoints: dict[str, Endpoints] = {}
    tokens: dict[str, str] = {}
    served: list[tuple[Revision, str]] = []
    for seen, revision in places:
        found = endpoints_of(draft, client, record, seen, revision)
        if isinstance(found, str):
            draft.set_client(client, _waiting(draft, client, record, found))
            return
        if not found:
            continue
        endpoints[revision.pod_template] = found
        if revision.exposure == "Gateway":
            served.append((revision, draft.ip_of[seen.name]))
            if draft.workload.seat_tokens:
                tokens[revision.pod_template] = _token(draft, client, revision.pod_template)
    ready = msgspec.structs.replace(
        record,
        ready=True,
        phase=LOST if record.phase == LOST else READY,
        endpoints=endpoints,
        tokens=tokens,
        message="",
    )
    if not served or _served_already(draft, client, ready):
        draft.set_client(client, ready)
        return
    uid = draft.seen.session.metadata.uid
    routes = [
        route
        for revision, ip in served
        for route in seat_routes(
            Seat(
                uid,
                client,
                revision,
                ip,
                endpoints[revision.pod_template],
                tokens.get(revision.pod_template, ""),
            ),
            draft.seen.site.domain,
        )
    ]
    draft.publish.append(Publication(client, tuple(routes), ready))
    draft.set_client(client, _waiting(draft, client, record, ""))


def _ready_places(draft: Draft, record: ClientStatus) -> list[tuple[PodSeen, Revision]] | None:
    """Where the client sits; None unless it has all it is owed, and all of it is ready."""
    if any(made.template.name not in record.pods for made in draft.made) or not record.pods:
        return None
    found = []
    for pod in record.pods.values():
        seen, revision = draft.pod(pod), draft.revision_under(pod)
        if seen is None or revision is None or not seen.ready or not draft.ip_of.get(pod):
            return None
        found.append((seen, revision))
    return found


def _waiting(draft: Draft, client: str, record: ClientStatus, message: str) -> ClientStatus:
    before = draft.old.clients.get(client)
    was_served = before is not None and (
        before.ready or before.phase in (NOT_READY, RECOVERING) or bool(before.endpoints)
    )
    if record.phase == LOST:
        phase = LOST
    elif not was_served:
        phase = STARTING
    elif all(draft.ip_of.get(pod) for pod in record.pods.values()) and record.pods:
        phase = NOT_READY
    else:
        phase = RECOVERING
    return msgspec.structs.replace(record, ready=False, phase=phase, message=message)


def _served_already(draft: Draft, client: str, ready: ClientStatus) -> bool:
    """Whether the gateways have acknowledged all of this before."""
    before = draft.old.clients.get(client)
    return (
        before is not None
        and before.ready
        and before.pods == ready.pods
        and before.endpoints == ready.endpoints
        and before.tokens == ready.tokens
        and all(draft.old_ip_of.get(pod) == draft.ip_of[pod] for pod in ready.pods.values())
    )


def _token(draft: Draft, client: str, pod_template: str) -> str:
    key = draft.seen.site.seat_key
    seat = seat_id(key, draft.seen.session.metadata.uid, client, pod_template)
    return token_hash(seat_token(key, seat))


# Public ports --------------------------------------------------------------------------


def _tend_ports(draft: Draft) -> None:
    """Every published port is claimed, and no claim is kept for nothing."""
    claims, told = draft.seen.port_claims, draft.digest.ports
    if not claims and not told:
        return
    ordered = {(order.holder, order.port) for order in draft.claim_ports}
    for place in told.keys() - claims.keys() - ordered:
        client, _, pod_template = place[0].rpartition("/")
        record = draft.clients[client]
        revision = draft.revision_under(record.pods.get(pod_template, ""))
        if revision is not None and revision.exposure in WITH_PUBLIC_PORTS:
            url = record.endpoints[pod_template][place[1]]
            draft.claim_ports.append(ClaimPort(told[place], url[:3].upper(), *place))
    for place in claims.keys() - told.keys() - ordered:
        draft.free_ports.append(FreePort(claims[place]))
        draft.needs_fence = True
