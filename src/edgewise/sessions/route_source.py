"""Where the routes of sessions come from: the gateway is shown what changed in each of them.

Every join writes the whole session, and a session may have thousands of clients. So only
what routes are made of is decoded, and only clients that differ are looked at again. A
session that says nonsense keeps the routes it had.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ClassVar

import msgspec

from edgewise.api.sessions import ClientStatus, Revision, Session
from edgewise.exposure.route import Route
from edgewise.exposure.routing import Routing
from edgewise.kube.errors import UNREADABLE_JSON
from edgewise.kube.objects import Key, Object, Record
from edgewise.runtime.caching.cache import Cache
from edgewise.sessions import names
from edgewise.sessions.seats.routes import ServedSeat, seat_routes

log = logging.getLogger(__name__)

Placed = tuple[str, str]  # the revision that a pod was made from, and its address


class RoutedStatus(Record):
    """The part of a session's status that routes come from."""

    clients: dict[str, ClientStatus] = {}
    pods: dict[str, dict[str, str]] = {}
    revisions: dict[str, Revision] = {}


class RoutedSession(Object, kw_only=True):
    """A Session, as far as the gateway cares. Its status is read by itself: one that
    somebody wrote by hand must not keep all the others from being listed."""

    KIND: ClassVar = Session.KIND

    status: msgspec.Raw = msgspec.Raw(b"{}")

    def detached(self) -> RoutedSession:
        """A copy that does not hold on to the whole list it came with."""
        return msgspec.structs.replace(self, status=self.status.copy())


class Remembered:
    """What the routes of a session were made of, when it was last seen."""

    def __init__(self) -> None:
        self.uid = ""
        self.revisions: dict[str, Revision] = {}
        self.pods: dict[str, Placed] = {}
        self.records: dict[str, ClientStatus] = {}
        self.routes: dict[str, dict[str, Route]] = {}


class SessionRoutes:
    """Sessions, as one of the sources of a gateway."""

    domain = names.DOMAIN
    kind = RoutedSession

    def trim(self, obj: RoutedSession) -> RoutedSession:
        return obj.detached()

    def follow(
        self, cache: Cache[RoutedSession], routing: Routing, *, wildcard: str
    ) -> Callable[[], None]:
        return SessionWatch(routing, wildcard=wildcard).follow(cache)


class SessionWatch:
    """Follows the sessions of one cache."""

    def __init__(self, routing: Routing, *, wildcard: str = "") -> None:
        self._routing = routing
        self._wildcard = wildcard
        self._known: dict[Key, Remembered] = {}

    def follow(self, cache: Cache[RoutedSession]) -> Callable[[], None]:
        """Keep the routing in step with `cache`; returns how to stop."""
        return cache.subscribe(self._changed)

    def _changed(self, before: RoutedSession | None, after: RoutedSession | None, _: bool) -> None:
        if after is None:
            if before is not None:
                self._known.pop(before.key, None)
                self._routing.show(names.owner_of_routes(before.key), [])
            return
        try:
            status = msgspec.json.decode(after.status, type=RoutedStatus)
        except UNREADABLE_JSON as error:
            log.error("the status of session %s cannot be read: %s", after.key, error)
            return
        self._compare(after.key, after.metadata.uid, status)

    def _compare(self, key: Key, uid: str, status: RoutedStatus) -> None:
        known = self._known.setdefault(key, Remembered())
        pods = placements(status)
        moved = {pod for pod, _ in pods.items() ^ known.pods.items()}
        if status.revisions != known.revisions:
            moved |= pods.keys()
        successor = uid != known.uid  # of the same name: nothing is as it was
        new: dict[str, Route] = {}
        gone: set[str] = set()
        for client, record in status.clients.items():
            same = not successor and known.records.get(client) == record
            if same and (not moved or moved.isdisjoint(record.pods.values())):
                continue
            try:
                routes = self._routes(uid, client, status, pods)
            except ValueError as error:
                # It keeps what it had.
                log.error("the endpoints of %s in session %s are wrong: %s", client, key, error)
                continue
            gone |= known.routes.get(client, {}).keys() - routes.keys()
            new.update(routes)
            known.routes[client] = routes
        for client in known.records.keys() - status.clients.keys():
            gone |= known.routes.pop(client, {}).keys()
        known.uid, known.revisions = uid, status.revisions
        known.pods, known.records = pods, status.clients
        if new or gone:
            self._routing.amend(names.owner_of_routes(key), new.values(), gone - new.keys())

    def _routes(
        self,
        uid: str,
        client: str,
        status: RoutedStatus,
        pods: dict[str, Placed],
    ) -> dict[str, Route]:
        found: dict[str, Route] = {}
        record = status.clients[client]
        for pod_template, endpoints in record.endpoints.items():
            placed = pods.get(record.pods.get(pod_template, ""))
            if placed is not None:
                revision = status.revisions[placed[0]]
                token = record.tokens.get(pod_template, "")
                seat = ServedSeat(uid, client, revision, placed[1], endpoints, token)
                found.update((route.id, route) for route in seat_routes(seat, self._wildcard))
        return found


def placements(status: RoutedStatus) -> dict[str, Placed]:
    """Where each pod that the gateway may lead to is."""
    return {
        pod: (name, address)
        for name, revision in status.revisions.items()
        if revision.exposure == "Gateway"
        for pod, address in status.pods.get(name, {}).items()
        if address
    }


def routes_of(session: Session, *, wildcard: str = "") -> list[Route]:
    """All routes that the session's status says exist.

    A client has them from the moment its endpoints are published, for as long as its pod
    has an address: a dead pod's address may soon be somebody else's.
    """
    status = session.status
    where = {
        pod: (revision, ip)
        for revision, members in status.pods.items()
        for pod, ip in members.items()
        if ip
    }
    uid = session.metadata.uid
    found: list[Route] = []
    for client, record in status.clients.items():
        for pod_template, endpoints in record.endpoints.items():
            placed = where.get(record.pods.get(pod_template, ""))
            revision = status.revisions.get(placed[0]) if placed else None
            if placed and revision and revision.exposure == "Gateway":
                token = record.tokens.get(pod_template, "")
                seat = ServedSeat(uid, client, revision, placed[1], endpoints, token)
                found += seat_routes(seat, wildcard)
    return found
