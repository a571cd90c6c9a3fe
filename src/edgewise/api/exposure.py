"""What leads to pods from outside: `exposure.edgewise.dev`.

Ports of pod templates, claims on public ports, and TURN servers; used by every domain.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from edgewise.api.crd import Column, CrdSpec
from edgewise.api.schema import as_one
from edgewise.kube.objects import Kind, Object, Record

GROUP = "exposure.edgewise.dev"
VERSION = "v1alpha1"


TURN_SECRET_KEY = "secret"  # noqa: S105 - the name of the key, as coturn and STUNner have it


class Turn(Record):
    """The TURN servers of the location, through which WebRTC media reaches its pods."""

    urls: Annotated[list[Annotated[str, Meta(max_length=512)]], Meta(max_length=8), as_one()] = []
    """Such as turn:203.0.113.5:3478; empty: there are none, and clients get no credentials."""
    secret: Annotated[str, Meta(max_length=253)] = ""
    """The Secret (key `secret`) that is shared with them, beside this object and labelled
    `edgewise.dev/secret=turn`."""
    lifetime_seconds: Annotated[int, Meta(ge=60, le=86_400)] = 3600
    """How long a client's credentials last; new ones are given after half of it."""


Protocol = Literal["HTTP", "TCP", "UDP"]
# Part of the names of pods, which have 63 characters for everything.
ShortLabel = Annotated[
    str, Meta(min_length=1, max_length=20, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]


class Port(Record):
    """A port of a pod that its clients may reach."""

    name: ShortLabel
    """Part of the address: the last step of the path, or the key of a host and port."""
    port: Annotated[int, Meta(ge=1, le=65535)]
    """Where the container listens."""
    protocol: Protocol = "HTTP"
    """HTTP (WebSocket included) shares one public port; TCP and UDP get one each."""


class PortClaimSpec(Record):
    """Who has a public port."""

    domain: str
    """Which part of Edgewise its owner belongs to, such as `sessions`."""
    owner: str
    """Namespace and name of what the port belongs to, such as a session."""
    uid: str
    """Its uid: a successor of the same name has no right to the port."""
    holder: str
    """What of its owner it is for: client and pod template, or pod."""
    port: str
    """The name of the exposed port."""


class PortClaim(Object, kw_only=True):
    """One TCP or UDP port of the entry point. Its name is the port, so two cannot have it."""

    KIND: ClassVar = Kind(GROUP, VERSION, "PortClaim", "portclaims", namespaced=False)
    CRD: ClassVar = CrdSpec(
        short_names=("portc",),
        columns=(
            Column("Domain", ".spec.domain"),
            Column("Owner", ".spec.owner"),
            Column("Holder", ".spec.holder"),
            Column("Port", ".spec.port"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )

    spec: PortClaimSpec
