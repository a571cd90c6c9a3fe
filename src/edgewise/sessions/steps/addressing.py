"""Addresses: what a client is told, and when it may count on it.

An endpoint is published when it works, and then stays: the seat decides it, not the pod.
"""

from __future__ import annotations

import msgspec

from edgewise.api.sessions import ClientPhase, ClientStatus, Revision
from edgewise.exposure.seats import seat_id, seat_token, token_hash
from edgewise.sessions.digest import WITHOUT_SEATS
from edgewise.sessions.draft import Draft
from edgewise.sessions.orders import ClaimPort, FreePort, Publication
from edgewise.sessions.pods import WITH_PUBLIC_PORTS
from edgewise.sessions.seats.routes import ServedSeat, seat_routes
from edgewise.sessions.steps.children import WITH_SERVICE
from edgewise.sessions.steps.failing import remembered
from edgewise.sessions.steps.seat_endpoints import Endpoints, at_another_entry, endpoints_of
from edgewise.sessions.steps.waiting import NOTHING, Why, waiting, why_waiting
from edgewise.workloads.pods_seen import PodSeen

# Phases of a client that was told its endpoints.
SERVED = frozenset((ClientPhase.READY, ClientPhase.NOT_READY, ClientPhase.RECOVERING))


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
    found |= _told_long_ago(draft)
    return found & draft.clients.keys()


def _told_long_ago(draft: Draft) -> set[str]:
    """Clients whose address may lead nowhere although nothing happened to their pods: objects
    that lead to them change on their own, and an operator may start with another entry."""
    leading = {
        name
        for name, revision in draft.revisions.items()
        if revision.exposure in WITH_SERVICE
        # Of a status that we wrote ourselves, everything was told by the entry of today.
        or (revision.exposure == "Gateway" and draft.seen.digest is None)
    }
    if not leading:
        return set()
    found = set()
    for client, record in draft.clients.items():
        for pod_template, told in record.endpoints.items():
            name = draft.revision_of.get(record.pods.get(pod_template, ""), "")
            if name not in leading:
                continue
            revision = draft.revisions[name]
            if revision.exposure in WITH_SERVICE or at_another_entry(
                draft.seen.site, revision, told
            ):
                found.add(client)
    return found


def _address(draft: Draft, client: str) -> None:
    record = draft.clients[client]
    places = _ready_places(draft, record)
    if places is None:
        draft.set_client(client, _waiting(draft, client, record, why_waiting(draft, record)))
        return
    endpoints: dict[str, Endpoints] = {}
    tokens: dict[str, str] = {}
    served: list[tuple[Revision, str]] = []
    for seen, revision in places:
        found = endpoints_of(draft, client, record, seen, revision)
        if isinstance(found, str):
            why = Why("NoAddress", found)
            draft.set_client(client, _waiting(draft, client, record, why))
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
        phase=record.phase if record.phase == ClientPhase.DISCONNECTED else ClientPhase.READY,
        endpoints=endpoints,
        tokens=tokens,
        reason="",
        message="",
        late=False,
        since=None,
        due=None,
        failures=remembered(record, draft.now),
    )
    if not served or _served_already(draft, client, ready):
        draft.set_client(client, ready)
        return
    uid = draft.seen.session.metadata.uid
    routes = [
        route
        for revision, ip in served
        for route in seat_routes(
            ServedSeat(
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
    # Until all else is planned, it counts as not served.
    unserved = _waiting(draft, client, record, NOTHING)
    draft.set_client(client, unserved)
    draft.publish.append(Publication(client, tuple(routes), ready, unserved))


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


def _waiting(draft: Draft, client: str, record: ClientStatus, why: Why) -> ClientStatus:
    before = draft.old.clients.get(client)
    was_served = before is not None and before.phase in SERVED
    if record.phase == ClientPhase.DISCONNECTED:
        phase = record.phase
    elif record.phase == ClientPhase.STARTING and not was_served:
        phase = ClientPhase.STARTING  # it joins, or comes back
    elif all(draft.ip_of.get(pod) for pod in record.pods.values()) and record.pods:
        phase = ClientPhase.NOT_READY
    else:
        phase = ClientPhase.RECOVERING
    return waiting(draft, msgspec.structs.replace(record, phase=phase), why)


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
