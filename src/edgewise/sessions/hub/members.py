"""The locations whose clusters are connected to: what is followed in each of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

import msgspec

from edgewise.api.global_sessions import Location
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.clusters.connections import Connection, Connections
from edgewise.exposure.seat_key import SEAT_KEY, SEAT_KEY_SECRET
from edgewise.kube.bounds import MIB
from edgewise.kube.client import Client
from edgewise.kube.errors import Forbidden, KubeError, NotFound, Unauthorized
from edgewise.kube.kinds.core import Secret
from edgewise.kube.objects import Key, Object
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.connected_cluster import ConnectedCluster
from edgewise.sessions.hub.records import Hub, by_location

# A key that the operator of a member has changed is noticed within this time.
SEAT_KEY_SECONDS = 60.0

# What a cache of a member may hold, by what the hub knows of it.
SPARE_BYTES = 4 * MIB
SESSION_BYTES = 16 * 1024
TEMPLATE_BYTES = 64 * 1024
CLIENT_BYTES = 4 * 1024

_log = logging.getLogger(__name__)


class Where(msgspec.Struct, frozen=True):
    """What of a Location decides what is followed: when this changes, it is followed anew."""

    cluster: str
    namespace: str
    operator_namespace: str


class Member:
    """A location whose cluster is connected to: its sessions, templates and seat key."""

    def __init__(self, name: str, where: Where, connection: Connection) -> None:
        self.name = name
        self.where = where
        self.connection = connection
        self.namespace = where.namespace
        self.seat_key: bytes | None = None
        self._key_listeners: list[Callable[[], None]] = []
        self._health_listeners: list[Callable[[], None]] = []
        self._was_ready = False
        self._here = Selection(namespace=where.namespace)
        self.sessions: Cache[Session] = self.link.cache(Session, self._here)
        self.templates: Cache[SessionTemplate] = self.link.cache(SessionTemplate, self._here)
        self._ends = [
            self.link.on_health(self._tell_health),
            connection.beside(self._fetch_seat_key()),
            connection.beside(self._tell_when_complete()),
        ]

    def close(self) -> None:
        """Its cluster is connected to all the same, for others."""
        for end in self._ends:
            end()
        for kind in (Session, SessionTemplate):
            self.link.close(kind, self._here)

    @property
    def client(self) -> Client:
        return self.connection.client

    @property
    def link(self) -> ConnectedCluster:
        return self.connection.link

    @property
    def ready(self) -> bool:
        """Its cluster answers, and everything here was seen: what is not shown is not there."""
        return self.connection.ready and self.sessions.synced and self.templates.synced

    @property
    def lost(self) -> bool:
        return self.connection.lost

    @property
    def trouble(self) -> str:
        """What is wrong, as the end of "it …"; empty if nothing is."""
        if self.ready:  # asked for every client that is shown
            return ""
        return self.link.trouble or self.own_trouble or "is being caught up with"

    @property
    def own_trouble(self) -> str:
        """What keeps it from being followed while its cluster answers."""
        if not self.connection.ready or self.ready:
            return ""
        for kind in (Session, SessionTemplate):
            error = self.link.caches.error(kind, self._here)
            if isinstance(error, Unauthorized | Forbidden):
                return f"refuses us: {error}"
            if error is not None:
                return f"cannot be followed: {error}"
        return ""

    def session(self, name: str) -> Session | None:
        return self.sessions.get(Key(self.namespace, name))

    def template(self, name: str) -> SessionTemplate | None:
        return self.templates.get(Key(self.namespace, name))

    def on_health(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever it may be ready or not, or something else is said of it."""
        self._health_listeners.append(listener)

    def on_seat_key(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever there is another key."""
        self._key_listeners.append(listener)

    def _tell_health(self) -> None:
        self._was_ready = self.ready
        for listener in self._health_listeners:
            listener()

    async def _tell_when_complete(self) -> None:
        """Its cluster may have been ready long before, and has nothing to tell then."""
        for kind in (Session, SessionTemplate):
            await self.link.caches.wait_for(kind, self._here)
        if self.ready and not self._was_ready:
            self._tell_health()

    def _use_seat_key(self, key: bytes | None) -> None:
        if key != self.seat_key:
            self.seat_key = key
            for listener in self._key_listeners:
                listener()

    async def _fetch_seat_key(self) -> None:
        while True:
            await self.link.wait_ready()
            try:
                secret = await self.client.get(
                    Secret, SEAT_KEY_SECRET, self.where.operator_namespace
                )
                self._use_seat_key(secret.data.get(SEAT_KEY))
            except (NotFound, Forbidden):
                # Without it, clients of templates that ask for tokens get none from here.
                self._use_seat_key(None)
            except KubeError as error:
                _log.debug("the seat key of %s cannot be read: %s", self.name, error)
            await asyncio.sleep(SEAT_KEY_SECONDS)


class Members:
    """Follows each Location on the connection of its cluster, as Locations come, go and change."""

    def __init__(self, hub: Hub, connections: Connections) -> None:
        self.connections = connections
        self._hub = hub
        self._members: dict[str, Member] = {}
        self._opened: list[Callable[[Member], None]] = []
        self._listeners: list[Callable[[str], None]] = []
        hub.locations.subscribe(self._location_changed)
        connections.on_open(lambda _: self._bring_about())
        connections.on_close(lambda _: self._bring_about())
        connections.on_change(self._tell_of_cluster)

    def on_open(self, listener: Callable[[Member], None]) -> None:
        """Call `listener` with each new member, before its first list."""
        self._opened.append(listener)

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the name of each location that is connected to, or no longer."""
        self._listeners.append(listener)

    def get(self, name: str) -> Member | None:
        return self._members.get(name)

    def all(self) -> list[Member]:
        return list(self._members.values())

    def trouble(self, name: str) -> str:
        """What is wrong with a location, as the end of "it …"; empty if nothing is."""
        if (member := self._members.get(name)) is not None:
            return member.trouble
        location = self._hub.location(name)
        if location is None:
            return "is being connected to"
        return self.own_trouble(name) or self.connections.trouble(location.spec.cluster)

    def own_trouble(self, name: str) -> str:
        """What is wrong with a location itself, and not with the connection to its cluster."""
        if (member := self._members.get(name)) is not None:
            return member.own_trouble
        location = self._hub.location(name)
        if location is None:
            return ""
        cluster = location.spec.cluster
        if self._hub.registry.cluster(cluster) is None:
            return f"is in the cluster {cluster}, which is not registered"
        if (first := self._first_in(self._where(location))) not in ("", name):
            return f"uses the same namespace of {cluster} as {first}, which was there first"
        return ""

    def since(self, name: str) -> datetime | None:
        """When a location that is not well was last heard; None if it is well, or never was."""
        if (member := self._members.get(name)) is not None:
            return member.link.since
        location = self._hub.location(name)
        return self.connections.since(location.spec.cluster) if location is not None else None

    # Opening and closing ------------------------------------------------------------

    def _location_changed(self, old: Location | None, new: Location | None, _: bool) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._bring_about()

    def _tell_of_cluster(self, cluster: str) -> None:
        for location in self._hub.locations:
            if location.spec.cluster == cluster:
                self._tell(location.metadata.name)

    def _tell(self, name: str) -> None:
        for listener in self._listeners:
            listener(name)

    def _where(self, location: Location) -> Where:
        spec = location.spec
        namespace = spec.namespace or self._hub.namespace
        return Where(spec.cluster, namespace, spec.operator_namespace)

    def _first_in(self, where: Where) -> str:
        """Two locations in one namespace would take each other's sessions for their own."""
        return next(
            (
                location.metadata.name
                for location in self._in_order()
                if (each := self._where(location)).cluster == where.cluster
                and each.namespace == where.namespace
            ),
            "",
        )

    def _in_order(self) -> list[Location]:
        """The oldest first, so that all replicas agree."""
        return sorted(self._hub.locations, key=_age)

    def _wanted(self) -> dict[str, tuple[Where, Connection]]:
        wanted: dict[str, tuple[Where, Connection]] = {}
        taken: set[tuple[str, str]] = set()
        for location in self._in_order():
            where = self._where(location)
            connection = self.connections.get(where.cluster)
            place = where.cluster, where.namespace
            if connection is not None and place not in taken:
                wanted[location.metadata.name] = where, connection
            taken.add(place)
        return wanted

    def _bring_about(self) -> None:
        wanted = self._wanted()
        for name, member in list(self._members.items()):
            if wanted.get(name) != (member.where, member.connection):
                del self._members[name]
                member.close()
                self._tell(name)
        for name, (where, connection) in wanted.items():
            if name not in self._members:
                member = self._members[name] = Member(name, where, connection)
                for listener in self._opened:
                    listener(member)
                self._tell(name)


def _age(location: Location) -> tuple[str, str]:
    # As Kubernetes writes it: RFC 3339 in UTC, so its order is that of time.
    return location.metadata.creation_timestamp or "", location.metadata.name


def heaviest(hub: Hub, cluster: str, kind: type[Object]) -> int:
    """What the hub itself has put into a member, generously, and some more for others."""
    if kind is SessionTemplate:
        return SPARE_BYTES // 2 + TEMPLATE_BYTES * len(hub.templates)
    clients = sum(
        len(hub.bindings.by(by_location, location.metadata.name))
        for location in hub.locations
        if location.spec.cluster == cluster
    )
    return SPARE_BYTES + SESSION_BYTES * len(hub.sessions) + CLIENT_BYTES * clients
