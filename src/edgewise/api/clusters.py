"""The clusters that a hub knows: `federation.edgewise.dev`. They live in the hub cluster."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from msgspec import Meta, field

from edgewise.api.crd import Column, CrdSpec
from edgewise.kube.objects import Kind, Object, Record

GROUP = "federation.edgewise.dev"
VERSION = "v1alpha1"

KUBECONFIG_KEY = "kubeconfig"

_AGE = Column("Age", ".metadata.creationTimestamp", "date")


class Ping(Record):
    """Where clients can measure their distance to the cluster."""

    http: Annotated[str, Meta(max_length=512)] = ""
    """A URL that the ping agent answers, such as https://ping.example.org/ping."""
    udp: Annotated[str, Meta(max_length=262)] = ""
    """host:port of the ping agent."""


class ClusterSpec(Record):
    kubeconfig_secret: Annotated[str, Meta(max_length=253)] = ""
    """The Secret (key `kubeconfig`) that leads to the cluster; empty: the hub itself."""
    region: Annotated[str, Meta(max_length=63)] = ""
    """For people, and for sessions that are limited to some regions."""
    ping: Ping = field(default_factory=Ping)


class ClusterStatus(Record):
    health: Annotated[str, Meta(max_length=32)] = ""
    message: Annotated[str, Meta(max_length=1024)] = ""
    since: datetime | None = None


class Cluster(Object):
    """A cluster that the hub connects to. What it is used for, other objects say."""

    KIND: ClassVar = Kind(GROUP, VERSION, "Cluster", "clusters")
    CRD: ClassVar = CrdSpec(
        short_names=("cl",),
        columns=(
            Column("Region", ".spec.region"),
            Column("Health", ".status.health"),
            _AGE,
        ),
    )

    spec: ClusterSpec = field(default_factory=ClusterSpec)
    status: ClusterStatus = field(default_factory=ClusterStatus)
