"""Joins two running clusters, and parts them again."""

from __future__ import annotations

from edgewise.local import connections
from edgewise.local.cabling import cable_up, uncable
from edgewise.local.clusters import Cluster
from edgewise.local.errors import LocalError


def connect(one: Cluster, other: Cluster, latency: float | None = None) -> None:
    """From now on their nodes and pods reach each other by address.

    `latency` is in milliseconds one way; without it, what was said when they were made.
    """
    if one.name == other.name:
        raise LocalError("a cluster is always joined to itself; name two different ones")
    if latency is None:
        said = (one.spec.peer_latency.get(other.name), other.spec.peer_latency.get(one.name))
        latency = max(value or 0.0 for value in said)
    connections.remember(one.home, other.home, latency)
    for cluster in (one, other):
        cable_up(cluster.home, cluster.record)


def disconnect(one: Cluster, other: Cluster) -> None:
    connections.forget(one.home, other.home)
    uncable(one.home, one.record, other.record)
    uncable(other.home, other.record, one.record)
