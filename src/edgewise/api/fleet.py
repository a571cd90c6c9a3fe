"""The objects of a fleet of clusters: `fleet.edgewise.dev`. They live in the hub cluster.

A FleetSession is one session over all its locations, a ClientBinding says in which one of
them a client sits, and a MemberCluster is a location.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, field

from edgewise.api.crd import Column, CrdSpec
from edgewise.api.schema import Rule, as_one
from edgewise.kube.objects import Kind, Object, Record

GROUP = "fleet.edgewise.dev"
VERSION = "v1alpha1"

# Held by a FleetSession until every cluster has confirmed that its part is gone.
FINALIZER = f"{GROUP}/clusters"
# On what the server made in a member cluster: whose it is.
FLEET_LABEL = f"{GROUP}/fleet"
SESSION_UID_LABEL = f"{GROUP}/session-uid"
# On bindings, so that those of one session can be listed.
SESSION_LABEL = f"{GROUP}/session"
# On Secrets that the server reads: api-token, signing-keys, kubeconfig or turn.
SECRET_LABEL = f"{GROUP}/secret"
KUBECONFIG_KEY = "kubeconfig"
TURN_SECRET_KEY = "secret"  # noqa: S105 - the name of the key, as coturn and STUNner have it

_AGE = Column("Age", ".metadata.creationTimestamp", "date")

Name = Annotated[str, Meta(min_length=1, max_length=63)]
LocationNames = Annotated[list[Name], Meta(max_length=64), as_one()]
Latencies = Annotated[
    dict[str, Annotated[float, Meta(ge=0, le=60_000)]], Meta(max_length=64), as_one()
]


class Ping(Record):
    """Where clients can measure their distance to the location."""

    http: Annotated[str, Meta(max_length=512)] = ""
    """A URL that the ping agent answers, such as https://ping.example.org/ping."""
    udp: Annotated[str, Meta(max_length=262)] = ""
    """host:port of the ping agent."""


class Turn(Record):
    """The TURN servers of the location, through which WebRTC media reaches its pods."""

    urls: Annotated[list[Annotated[str, Meta(max_length=512)]], Meta(max_length=8), as_one()] = []
    """Such as turn:203.0.113.5:3478; empty: there are none, and clients get no credentials."""
    secret: Annotated[str, Meta(max_length=253)] = ""
    """The Secret (key `secret`) that is shared with them, beside this object and labelled
    `fleet.edgewise.dev/secret=turn`."""
    lifetime_seconds: Annotated[int, Meta(ge=60, le=86_400)] = 3600
    """How long a client's credentials last; new ones are given after half of it."""


class MemberClusterSpec(Record):
    kubeconfig_secret: Annotated[str, Meta(max_length=253)] = ""
    """The Secret (key `kubeconfig`) that leads to the cluster; empty: the hub itself."""
    namespace: Annotated[str, Meta(max_length=63)] = ""
    """Where its sessions live; empty: the namespace of this object."""
    operator_namespace: Annotated[str, Meta(max_length=63)] = "edgewise-system"
    """Where its operator keeps the key from which the tokens of seats are made."""
    region: Annotated[str, Meta(max_length=63)] = ""
    """For people, and for sessions that are limited to some regions."""
    ping: Ping = field(default_factory=Ping)
    turn: Turn = field(default_factory=Turn)
    cordoned: bool = False
    """No new clients, while those who are there stay."""
    capacity: Annotated[int, Meta(ge=0)] | None = None
    """How many clients it takes; without it there is no bound."""


class MemberClusterStatus(Record):
    health: Annotated[str, Meta(max_length=32)] = ""
    message: Annotated[str, Meta(max_length=1024)] = ""
    since: datetime | None = None


class MemberCluster(Object):
    """A cluster that takes clients: a location."""

    KIND: ClassVar = Kind(GROUP, VERSION, "MemberCluster", "memberclusters")
    CRD: ClassVar = CrdSpec(
        short_names=("member",),
        columns=(
            Column("Region", ".spec.region"),
            Column("Health", ".status.health"),
            Column("Cordoned", ".spec.cordoned", "boolean"),
            Column("Capacity", ".spec.capacity", "integer"),
            _AGE,
        ),
    )

    spec: MemberClusterSpec = field(default_factory=MemberClusterSpec)
    status: MemberClusterStatus = field(default_factory=MemberClusterStatus)


class Failover(StrEnum):
    MOVE = "Move"
    STAY = "Stay"


class FleetSessionSpec(Record, kw_only=True):
    RULES: ClassVar = (
        Rule("self.template == oldSelf.template", "the template of a session cannot be changed"),
    )

    template: Name
    """The SessionTemplate, in the namespace of this object."""
    owner: Annotated[str, Meta(max_length=253)] = ""
    """The application that it belongs to."""
    locations: LocationNames = []
    """The only locations it may use; empty: all."""
    regions: LocationNames = []
    """The only regions it may use; empty: all."""
    failover: Failover = Failover.MOVE
    """What becomes of its clients when their cluster is lost."""


class FleetSession(Object, kw_only=True):
    """One session over all of its locations."""

    KIND: ClassVar = Kind(GROUP, VERSION, "FleetSession", "fleetsessions")
    CRD: ClassVar = CrdSpec(
        short_names=("fsess",),
        columns=(
            Column("Template", ".spec.template"),
            Column("Owner", ".spec.owner"),
            Column("Deleting", ".metadata.deletionTimestamp", "date"),
            _AGE,
        ),
    )

    spec: FleetSessionSpec


class BindingState(StrEnum):
    SEATED = "Seated"
    LOST = "Lost"  # the client is not heard from, and keeps its seat for a while
    QUEUED = "Queued"  # every place is full


class ClientBindingSpec(Record, kw_only=True):
    session: Name
    session_uid: Annotated[str, Meta(max_length=64)]
    client: Annotated[str, Meta(min_length=1, max_length=128)]
    state: BindingState
    cluster: Annotated[str, Meta(max_length=63)] = ""
    """Where the client sits. This field is the truth; everything else follows it."""
    since: datetime
    """When this state began."""
    until: datetime | None = None
    """When a queued client has waited long enough."""
    only: Annotated[str, Meta(max_length=63)] = ""
    """The one location that a queued client asked for."""
    lease_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 0
    """Silence of so many seconds makes it lost; 0: its application says when it is."""
    moves: Annotated[int, Meta(ge=0)] = 0
    """How often it was moved to another cluster."""
    latencies: Latencies = {}
    """What the client measured, for the case that it has to be moved."""
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
            Column("Cluster", ".spec.cluster"),
            _AGE,
        ),
    )

    spec: ClientBindingSpec


def binding_name(session: str, session_uid: str, client: str) -> str:
    """The same for everybody who thinks of the same client in the same session."""
    digest = hashlib.sha256(f"{session_uid}/{client}".encode()).digest()
    # The session is only there for people who read a list of bindings.
    return f"{session[:36]}-{b32encode(digest[:16]).decode().rstrip('=').lower()}"
