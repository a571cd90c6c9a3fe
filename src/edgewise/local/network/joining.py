"""Joins two running clusters, and parts them again."""

from __future__ import annotations

from edgewise.local.clusters import LocalCluster
from edgewise.local.errors import LocalError
from edgewise.local.network import connections
from edgewise.local.network.cabling import cable_up, uncable


def connect(one: LocalCluster, other: LocalCluster, latency: float | None = None) -> None:
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


def disconnect(one: LocalCluster, other: LocalCluster) -> None:
    connections.forget(one.home, other.home)
    uncable(one.home, one.record, other.record)
    uncable(other.home, other.record, one.record)
