"""Sessions over many clusters: the part of `sessions.edgewise.dev` that lives in the hub.

A Location is a cluster that takes clients. A GlobalSession is one session over all its
locations; a ClientBinding says in which one of them a client sits.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, field

from edgewise.api.crd import Column, CrdSpec
from edgewise.api.exposure import Turn
from edgewise.api.schema import Rule, as_one
from edgewise.api.sessions import GROUP, VERSION
from edgewise.kube.objects import Kind, Object, Record

_AGE = Column("Age", ".metadata.creationTimestamp", "date")


# Held by a GlobalSession until every cluster has confirmed that its part is gone.
FINALIZER = f"{GROUP}/clusters"
# On what the server made in a member cluster: whose it is.
HUB_LABEL = f"{GROUP}/hub"
SESSION_UID_LABEL = f"{GROUP}/global-session-uid"
# On bindings, so that those of one session can be listed.
SESSION_LABEL = f"{GROUP}/global-session"
Name = Annotated[str, Meta(min_length=1, max_length=63)]
LocationNames = Annotated[list[Name], Meta(max_length=64), as_one()]
Latencies = Annotated[
    dict[str, Annotated[float, Meta(ge=0, le=60_000)]], Meta(max_length=64), as_one()
]


class LocationSpec(Record, kw_only=True):
    cluster: Name
    """The Cluster, in the namespace of this object."""
    namespace: Annotated[str, Meta(max_length=63)] = ""
    """Where its sessions live in that cluster; empty: the namespace of this object."""
    operator_namespace: Annotated[str, Meta(max_length=63)] = "edgewise-system"
    """Where its operator keeps the key from which the tokens of seats are made."""
    capacity: Annotated[int, Meta(ge=0)] | None = None
    """How many clients it takes; without it there is no bound."""
    turn: Turn = field(default_factory=Turn)
    cordoned: bool = False
    """No new clients, while those who are there stay."""


class Degradation(Record, kw_only=True):
    """A template whose clients do not become ready in this location."""

    generation: Annotated[int, Meta(ge=0)]
    """Of the template: once that is changed, this does not count any more."""
    failures: Annotated[int, Meta(ge=1)]
    """How many clients in a row were not ready in time."""
    reason: Annotated[str, Meta(max_length=64)] = ""
    message: Annotated[str, Meta(max_length=256)] = ""
    since: datetime
    trial: datetime
    """From when on one client may try whether it works again."""


class LocationStatus(Record):
    message: Annotated[str, Meta(max_length=1024)] = ""
    """What is wrong with the location itself; that its cluster is silent, the Cluster says."""
    degraded: Annotated[dict[str, Degradation], Meta(max_length=64)] = {}
    """Template to why its clients are better placed elsewhere."""


class Location(Object, kw_only=True):
    """A cluster that takes clients. Without it the hub is connected to the cluster all the same."""

    KIND: ClassVar = Kind(GROUP, VERSION, "Location", "locations")
    CRD: ClassVar = CrdSpec(
        short_names=("loc",),
        columns=(
            Column("Cluster", ".spec.cluster"),
            Column("Cordoned", ".spec.cordoned", "boolean"),
            Column("Capacity", ".spec.capacity", "integer"),
            _AGE,
        ),
    )

    spec: LocationSpec
    status: LocationStatus = field(default_factory=LocationStatus)


class Failover(StrEnum):
    MOVE = "Move"
    STAY = "Stay"


class GlobalSessionSpec(Record, kw_only=True):
    RULES: ClassVar = (
        Rule("self.template == oldSelf.template", "the template of a session cannot be changed"),
    )

    template: Name
    """The SessionTemplate, in the namespace of this object."""
    owner: Annotated[str, Meta(max_length=260)] = ""
    """The application that it belongs to; `oidc:` and its name if an OIDC issuer named it."""
    locations: LocationNames = []
    """The only locations it may use; empty: all."""
    regions: LocationNames = []
    """The only regions it may use; empty: all."""
    failover: Failover = Failover.MOVE
    """What becomes of its clients when their cluster is lost."""


class GlobalSession(Object, kw_only=True):
    """One session over all of its locations."""

    KIND: ClassVar = Kind(GROUP, VERSION, "GlobalSession", "globalsessions")
    CRD: ClassVar = CrdSpec(
        short_names=("gsess",),
        columns=(
            Column("Template", ".spec.template"),
            Column("Owner", ".spec.owner"),
            Column("Deleting", ".metadata.deletionTimestamp", "date"),
            _AGE,
        ),
    )

    spec: GlobalSessionSpec


class BindingState(StrEnum):
    SEATED = "Seated"
    DISCONNECTED = "Disconnected"  # the client is not heard from, and keeps its seat for a while
    QUEUED = "Queued"  # every place is full


class ClientBindingSpec(Record, kw_only=True):
    session: Name
    session_uid: Annotated[str, Meta(max_length=64)]
    client: Annotated[str, Meta(min_length=1, max_length=128)]
    state: BindingState
    location: Annotated[str, Meta(max_length=63)] = ""
    """Where the client sits. This field is the truth; everything else follows it."""
    since: datetime
    """When this state began."""
    until: datetime | None = None
    """When a queued client has waited long enough."""
    only: Annotated[str, Meta(max_length=63)] = ""
    """The one location that the client asked for."""
    lease_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 0
    """Silence of so many seconds makes it disconnected; 0: its application says when it is."""
    moves: Annotated[int, Meta(ge=0)] = 0
    """How often it was moved to another cluster."""
    latencies: Latencies = {}
    """What the client measured, for the case that it has to be moved."""
    tried: LocationNames = []
    """Where its pods were not ready in time, in this round."""
    rounds: Annotated[int, Meta(ge=0)] = 0
    """How often all locations were tried in vain."""
    retry: datetime | None = None
    """When the next round begins; until then it stays where it is."""
    why: Annotated[str, Meta(max_length=1024)] = ""
    """The reason for the choice, for people."""


class ClientBinding(Object, kw_only=True):
    """Where one client of one session sits. It exists from joining to leaving.

    Its name is made from session and client, so that of several simultaneous joins exactly
    one can create it; every later change is refused if somebody else was faster.
    """

    KIND: ClassVar = Kind(GROUP, VERSION, "ClientBinding", "clientbindings")
    CRD: ClassVar = CrdSpec(
        short_names=("cbind",),
        columns=(
            Column("Session", ".spec.session"),
            Column("Client", ".spec.client"),
            Column("State", ".spec.state"),
            Column("Location", ".spec.location"),
            _AGE,
        ),
    )

    spec: ClientBindingSpec


def binding_name(session: str, session_uid: str, client: str) -> str:
    """The same for everybody who thinks of the same client in the same session."""
    digest = hashlib.sha256(f"{session_uid}/{client}".encode()).digest()
    # The session is only there for people who read a list of bindings.
    return f"{session[:36]}-{b32encode(digest[:16]).decode().rstrip('=').lower()}"
