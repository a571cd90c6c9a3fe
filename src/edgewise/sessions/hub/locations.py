"""What is known of a location: one value joined from its Location, its Cluster and the connection.

A Location says that a cluster takes clients, and how many; the Cluster says where that is; the
connection says whether it answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from edgewise.api.clusters import Cluster, Ping
from edgewise.api.exposure import Turn
from edgewise.api.global_sessions import Degradation, GlobalSession, Location
from edgewise.sessions.hub.members import Member, Members
from edgewise.sessions.hub.records import Hub

_NOWHERE = Ping()


class LocationSeen(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cluster: str
    registered: bool  # there is a Cluster of that name
    region: str = ""
    ping: Ping
    capacity: int | None = None
    cordoned: bool = False
    turn: Turn
    degraded: Mapping[str, Degradation]
    trouble: str = ""  # as the end of "it …"
    since: datetime | None = None  # when one that has trouble was last heard
    ready: bool = False

    def open_to(self, session: GlobalSession) -> bool:
        """Whether a session may use it."""
        spec = session.spec
        return (not spec.locations or self.name in spec.locations) and (
            not spec.regions or self.region in spec.regions
        )


class Locations:
    def __init__(self, hub: Hub, members: Members) -> None:
        self._hub = hub
        self._members = members

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever an object does that the locations are joined from."""
        return self._hub.locations.revision, self._hub.registry.clusters.revision

    def get(self, name: str) -> LocationSeen | None:
        found = self._hub.location(name)
        return self.join(found) if found is not None else None

    def all(self) -> list[LocationSeen]:
        return [self.join(location) for location in self._hub.locations]

    def in_cluster(self, cluster: str) -> list[str]:
        """The names of the locations that a cluster has."""
        return [
            location.metadata.name
            for location in self._hub.locations
            if location.spec.cluster == cluster
        ]

    def join(self, location: Location) -> LocationSeen:
        """Also for an object that was just written, which the cache may not show yet."""
        name = location.metadata.name
        cluster = self._hub.registry.cluster(location.spec.cluster)
        member = self._members.get(name)
        if member is not None:
            return join(location, cluster, member, trouble=member.trouble, since=member.link.since)
        trouble, since = self._members.trouble(name), self._members.since(name)
        return join(location, cluster, None, trouble=trouble, since=since)


def join(
    location: Location,
    cluster: Cluster | None,
    member: Member | None,
    *,
    trouble: str,
    since: datetime | None,
) -> LocationSeen:
    spec = location.spec
    going = location.metadata.deleting or (cluster is not None and cluster.metadata.deleting)
    return LocationSeen(
        name=location.metadata.name,
        cluster=spec.cluster,
        registered=cluster is not None,
        region=cluster.spec.region if cluster is not None else "",
        ping=cluster.spec.ping if cluster is not None else _NOWHERE,
        capacity=spec.capacity,
        cordoned=spec.cordoned or going,
        turn=spec.turn,
        degraded=location.status.degraded,
        trouble=trouble,
        since=since,
        ready=member is not None and member.ready,
    )
