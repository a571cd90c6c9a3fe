"""What the API shows: clients, sessions, locations and templates, as one.

Pure: made from the objects of hub and members, wherever those come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from edgewise.api.global_sessions import (
    BindingState,
    ClientBinding,
    Degradation,
    GlobalSession,
)
from edgewise.api.owners import owner_in
from edgewise.api.sessions import ClientStatus, Session, SessionTemplate
from edgewise.exposure.endpoints import seat_in
from edgewise.exposure.seats import seat_token
from edgewise.exposure.turn import IceServer
from edgewise.sessions.hub.choosing.ranking import Candidate
from edgewise.sessions.hub.locations import LocationSeen

# A client is `suspect` when it was ready, and its location does not answer: nobody can say whether
# it still is.
ClientState = Literal["queued", "joining", "ready", "suspect", "disconnected"]
LocationState = Literal["ready", "full", "cordoned", "unhealthy"]
PartState = Literal["ready", "pending", "deleting", "unreachable", "conflict"]


class View(msgspec.Struct, rename="camel"):
    """camelCase in JSON, and always with all fields."""


class PingView(View, kw_only=True):
    """Where to measure the distance to a location."""

    http: str = ""
    udp: str = ""


class DegradedView(View, kw_only=True):
    """Why a template's clients are better placed elsewhere."""

    reason: str = ""
    message: str = ""
    failures: int
    since: datetime
    trial: Annotated[
        datetime,
        msgspec.Meta(description="From when on one client may try whether it works again."),
    ]


class LocationView(View, kw_only=True):
    """A place where clients can be."""

    name: str
    region: str = ""
    state: LocationState
    reason: str = ""
    since: Annotated[
        datetime | None,
        msgspec.Meta(description="When a location that is `unhealthy` was last heard."),
    ] = None
    ping: PingView = msgspec.field(default_factory=PingView)
    clients: int = 0
    waiting: int = 0
    queued: int = 0
    capacity: int | None = None
    free: int | None = None
    load: float = 0.0
    degraded: Annotated[
        dict[str, DegradedView],
        msgspec.Meta(
            description="By template: its clients are not ready in time there, or get no public "
            "port. Other templates are not concerned."
        ),
    ] = {}


class TemplateView(View, kw_only=True):
    """What a session can be made from."""

    name: str
    pods: list[str]
    max_clients: int | None = None
    timeout_seconds: int = 0


class ClientView(View, kw_only=True):
    """One client of a session: where it is, and how to reach its pods."""

    session: str
    client: str
    state: ClientState
    ready: bool = False
    location: str | None = None
    # Pod template to port name to address. Whoever knows an address can use it, so these are
    # shown only to the client itself, its application and admins.
    endpoints: dict[str, dict[str, str]] = {}
    # Pod template to the token that the gateway asks for, where the template wants that.
    tokens: dict[str, str] = {}
    ice_servers: Annotated[
        list[IceServer],
        msgspec.Meta(
            description="TURN servers of the location with credentials of this client, as "
            "`RTCPeerConnection` takes them. They end; a fresh set is in every answer after half "
            "of their time. Only in answers and events about one client, and never for readers; "
            "empty where the location has no TURN server."
        ),
    ] = []
    since: Annotated[
        datetime,
        msgspec.Meta(
            description="When this state began; of a suspect client, when its location was last "
            "heard."
        ),
    ]
    # Only of a queued client: its place in the queue (1 is next) and when it has to give up.
    position: int | None = None
    until: datetime | None = None
    why: str = ""
    tried: Annotated[
        list[str],
        msgspec.Meta(description="Where its pods were not ready in time, while it joins."),
    ] = []
    retry: Annotated[
        datetime | None,
        msgspec.Meta(description="When other locations are tried again, if none would do."),
    ] = None
    moves: int = 0
    lease_seconds: int = 0
    message: str = ""


class SessionLocationView(View, kw_only=True):
    """A session's part in one location."""

    state: PartState
    reason: str = ""
    clients: int = 0
    ready: int = 0


class SessionSummary(View, kw_only=True):
    """A session without its clients."""

    name: str
    template: str
    owner: str
    state: Literal["active", "deleting"]
    clients: int
    ready: int
    suspect: int
    disconnected: int
    queued: int
    created: str | None = None


class SessionView(SessionSummary, kw_only=True):
    """One view of a session over all its locations."""

    locations: dict[str, SessionLocationView]
    clients_by_id: dict[str, ClientView]


def view_location(
    place: Candidate,
    location: LocationSeen,
    marks: Mapping[str, Degradation],
) -> LocationView:
    """`marks` are those that count for the templates as they are now."""
    state: LocationState = "ready"
    reason = ""
    if place.trouble:
        state, reason = "unhealthy", f"{place.name} {place.trouble}"
    elif place.cordoned:
        state, reason = "cordoned", f"{place.name} takes no new clients"
    elif place.full:
        state, reason = "full", f"{place.taken} of {place.capacity} clients"
    free = None if place.capacity is None else max(0, place.capacity - place.taken)
    return LocationView(
        name=place.name,
        region=location.region,
        state=state,
        reason=reason,
        since=location.since if place.trouble else None,
        ping=PingView(http=location.ping.http, udp=location.ping.udp),
        clients=place.clients,
        waiting=place.waiting,
        queued=place.queued,
        capacity=place.capacity,
        free=free,
        load=round(place.load, 3),
        degraded={
            template: DegradedView(
                reason=mark.reason,
                message=mark.message,
                failures=mark.failures,
                since=mark.since,
                trial=mark.trial,
            )
            for template, mark in sorted(marks.items())
        },
    )


def view_template(template: SessionTemplate) -> TemplateView:
    spec = template.spec
    return TemplateView(
        name=template.metadata.name,
        pods=[each.name for each in spec.pod_templates],
        max_clients=spec.max_clients or None,
        timeout_seconds=spec.timeout_seconds,
    )


def client_state(
    binding: ClientBinding, status: ClientStatus | None, *, silent: bool = False
) -> ClientState:
    """`silent` says that its cluster does not answer: what that said last may be over."""
    match binding.spec.state:
        case BindingState.QUEUED:
            return "queued"
        case BindingState.DISCONNECTED:
            return "disconnected"
        case _:
            if status is None or not status.ready:
                return "joining"
            return "suspect" if silent else "ready"


def view_client(
    binding: ClientBinding,
    status: ClientStatus | None,
    *,
    trouble: str = "",
    silent_since: datetime | None = None,
    position: int | None = None,
    private: bool = True,
    seat_key: bytes | None = None,
    ice_servers: Sequence[IceServer] = (),
) -> ClientView:
    """`status` is what the client's cluster says of it, `trouble` what is wrong with that one,
    and `silent_since` when that one was last heard.

    Without `private`, what leads to the client's pods is left out.
    """
    spec = binding.spec
    state = client_state(binding, status, silent=bool(trouble))
    status = status or ClientStatus()
    endpoints = status.endpoints if spec.location and private else {}
    return ClientView(
        session=spec.session,
        client=spec.client,
        state=state,
        ready=state == "ready",
        location=spec.location or None,
        endpoints=endpoints,
        tokens=_tokens(seat_key, endpoints) if status.tokens and seat_key else {},
        ice_servers=list(ice_servers) if spec.location and private else [],
        since=silent_since if state == "suspect" and silent_since else spec.since,
        position=position,
        until=spec.until,
        why=spec.why,
        tried=spec.tried if state == "joining" else [],
        retry=spec.retry if state == "joining" else None,
        moves=spec.moves,
        lease_seconds=spec.lease_seconds,
        message=f"{spec.location} {trouble}" if spec.location and trouble else status.message,
    )


def _tokens(key: bytes, endpoints: dict[str, dict[str, str]]) -> dict[str, str]:
    """The gateway keeps nothing but hashes, so they are derived anew from the key."""
    found = {}
    for pod_template, ports in endpoints.items():
        seats = [seat_in(url) for url in ports.values() if url.startswith("http")]
        if seats:
            found[pod_template] = seat_token(key, seats[0])
    return found


def summarize(session: GlobalSession, states: Sequence[ClientState]) -> SessionSummary:
    return SessionSummary(
        name=session.metadata.name,
        template=session.spec.template,
        owner=owner_in(session.spec.owner),
        state="deleting" if session.metadata.deleting else "active",
        clients=len(states),
        ready=states.count("ready"),
        suspect=states.count("suspect"),
        disconnected=states.count("disconnected"),
        queued=states.count("queued"),
        created=session.metadata.creation_timestamp,
    )


def view_part(
    found: Session | None, *, ours: bool, deleting: bool, trouble: str
) -> SessionLocationView:
    """A session's part in one location; `deleting` says that the whole session shall go."""
    counts = found.status.counts if found is not None else None
    clients, ready = (counts.clients or 0, counts.ready or 0) if counts else (0, 0)
    state: PartState
    if trouble:
        state, reason = "unreachable", trouble
    elif found is not None and not ours:
        state, reason = "conflict", "a Session of this name was made there by somebody else"
    elif deleting or (found is not None and found.metadata.deleting):
        state, reason = "deleting", "" if found is not None else "gone"
    elif found is None:
        state, reason = "pending", "not made there yet"
    else:
        state, reason = "ready", ""
    return SessionLocationView(state=state, reason=reason, clients=clients, ready=ready)
