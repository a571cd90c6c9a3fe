"""The whole fleet as one replica sees it now: read from caches, never from an API server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import msgspec

from edgewise.api.fleet import BindingState, ClientBinding, FleetSession, MemberCluster
from edgewise.api.sessions import ClientStatus, Session
from edgewise.server.changes import Changes, Thing
from edgewise.server.hub import Hub
from edgewise.server.ledger import Ledger
from edgewise.server.members import Member, Members
from edgewise.server.placement import Place
from edgewise.server.queueing import Waiting, in_order
from edgewise.server.seats import Seats
from edgewise.server.turn import TurnDesk
from edgewise.server.views import (
    ClientView,
    LocationView,
    SessionLocationView,
    SessionSummary,
    SessionView,
    client_state,
    summarize,
    view_client,
    view_location,
    view_part,
)


class _Line(msgspec.Struct, frozen=True):
    """The queue, and what follows from it."""

    version: tuple[int, ...]
    queue: list[Waiting]
    places: dict[str, int]
    positions: dict[str, int]


class Fleet:
    def __init__(
        self, hub: Hub, members: Members, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.hub = hub
        self.members = members
        self.ledger = Ledger(hub.bindings)
        self.seats = Seats(hub)
        self.changes = Changes()
        self._turn = TurnDesk(hub, clock=clock)
        self._waiting: dict[str, dict[str, int]] = {}
        self._known_line: _Line | None = None
        self.changes.follow("f", hub.sessions, _session_touched)
        self.changes.follow("b", hub.bindings, _binding_touched)
        self.changes.follow("c", hub.clusters, _cluster_touched)
        hub.on_credentials(self.changes.wake_all)
        members.on_open(self._member_opened)

    # Places -------------------------------------------------------------------------

    def places(self, session: FleetSession | None = None) -> list[Place]:
        """All locations, with what speaks for and against each of them for a session."""
        queued = self._queued_for()
        return [self._place(cluster, queued, session) for cluster in self.hub.clusters]

    def _place(
        self, cluster: MemberCluster, queued: Mapping[str, int], session: FleetSession | None
    ) -> Place:
        name = cluster.metadata.name
        return Place(
            name=name,
            clients=self.ledger.seated(name),
            queued=queued.get(name, 0),
            waiting=sum(self._waiting.get(name, {}).values()),
            capacity=cluster.spec.capacity,
            cordoned=cluster.spec.cordoned or cluster.metadata.deleting,
            trouble=self.members.trouble(name),
            allowed=session is None or allows(session, cluster),
        )

    def queue(self) -> list[Waiting]:
        """Those who wait for a seat, first come first."""
        return self._line().queue

    def _queued_for(self) -> Mapping[str, int]:
        """How many of them may go to each location."""
        return self._line().places

    def _line(self) -> _Line:
        """Worked out anew only when somebody came or went: joins ask all the time."""
        version = (
            self.ledger.queue_version,
            self.hub.clusters.revision,
            self.hub.sessions.revision,
        )
        if self._known_line is None or self._known_line.version != version:
            queue = in_order(self._waiting_of(binding) for binding in self.ledger.queued())
            places = {
                cluster.metadata.name: sum(_may_go(each, cluster.metadata.name) for each in queue)
                for cluster in self.hub.clusters
                if queue
            }
            positions = {waiting.id: number for number, waiting in enumerate(queue, 1)}
            self._known_line = _Line(version, queue, places, positions)
        return self._known_line

    def _waiting_of(self, binding: ClientBinding) -> Waiting:
        spec = binding.spec
        session = self.hub.session(spec.session)
        limited = session is not None and (session.spec.locations or session.spec.regions)
        allowed = None
        if session is not None and limited:
            allowed = frozenset(
                cluster.metadata.name for cluster in self.hub.clusters if allows(session, cluster)
            )
        return Waiting(
            id=binding.metadata.name,
            since=spec.since.timestamp(),
            until=spec.until.timestamp() if spec.until else float("inf"),
            latencies=spec.latencies,
            only=spec.only or None,
            allowed=allowed,
        )

    # Views --------------------------------------------------------------------------

    def locations(self) -> list[LocationView]:
        known = {cluster.metadata.name: cluster for cluster in self.hub.clusters}
        return [
            view_location(place, known[place.name])
            for place in sorted(self.places(), key=lambda place: place.name)
        ]

    def location(self, name: str) -> LocationView | None:
        return next((view for view in self.locations() if view.name == name), None)

    def view_location(self, cluster: MemberCluster) -> LocationView:
        """A location as an object that was just written says, which the cache may not show yet."""
        return view_location(self._place(cluster, self._queued_for(), None), cluster)

    def client(
        self, binding: ClientBinding, *, private: bool = True, credentials: bool = True
    ) -> ClientView:
        """With `private`, also what leads to the client's pods.

        And then, with `credentials`, what it shows to TURN servers. Those end by themselves, so
        they do not belong into anything that is kept.
        """
        queued = binding.spec.state is BindingState.QUEUED
        cluster = binding.spec.cluster
        member = self.members.get(cluster)
        return view_client(
            binding,
            self.status(binding),
            trouble=self.members.trouble(cluster) if cluster else "",
            position=self._line().positions.get(binding.metadata.name) if queued else None,
            private=private,
            seat_key=member.seat_key if member is not None and private else None,
            ice_servers=self._turn.ice_servers(binding) if private and credentials else (),
        )

    def status(self, binding: ClientBinding) -> ClientStatus | None:
        """What the client's cluster says of it."""
        found = self.part(binding)
        return found.status.clients.get(binding.spec.client) if found is not None else None

    def session_of(self, binding: ClientBinding) -> FleetSession | None:
        """The session of a binding, and not a namesake of it."""
        session = self.hub.session(binding.spec.session)
        if session is None or session.metadata.uid != binding.spec.session_uid:
            return None
        return session

    def part(self, binding: ClientBinding) -> Session | None:
        """The Session in the client's cluster, if it belongs to the client's session."""
        member = self.members.get(binding.spec.cluster)
        session = self.session_of(binding)
        if member is None or session is None:
            return None
        found = member.session(binding.spec.session)
        return found if found is not None and self.seats.ours(found, session) else None

    def summary(self, session: FleetSession) -> SessionSummary:
        bindings = self.hub.bindings_of(session)
        return summarize(session, [client_state(each, self.status(each)) for each in bindings])

    def session(self, session: FleetSession, *, private: bool = True) -> SessionView:
        clients = {
            binding.spec.client: self.client(binding, private=private, credentials=False)
            for binding in self.hub.bindings_of(session)
        }
        summary = summarize(session, [client.state for client in clients.values()])
        return SessionView(
            **{field: getattr(summary, field) for field in SessionSummary.__struct_fields__},
            locations=self._parts(session),
            clients_by_id=clients,
        )

    def _parts(self, session: FleetSession) -> dict[str, SessionLocationView]:
        parts = {}
        for cluster in self.hub.clusters:
            if not allows(session, cluster):
                continue
            name = cluster.metadata.name
            member = self.members.get(name)
            found = member.session(session.metadata.name) if member else None
            parts[name] = view_part(
                found,
                ours=found is None or self.seats.ours(found, session),
                deleting=session.metadata.deleting,
                trouble=self.members.trouble(name),
            )
        return parts

    # Members that come --------------------------------------------------------------

    def _member_opened(self, member: Member) -> None:
        name = member.name
        counts: dict[str, int] = {}
        self._waiting[name] = counts

        def count(old: Session | None, new: Session | None, _: bool) -> None:
            if old is not None:
                counts.pop(old.metadata.name, None)
            if new is not None and (waiting := _not_ready(new)):
                counts[new.metadata.name] = waiting

        member.sessions.subscribe(count)
        self.changes.follow(f"s/{name}", member.sessions, _part_touched)
        member.mirror.on_health(lambda: self.changes.note(Thing("location", name)))
        member.on_seat_key(lambda: self.changes.note(Thing("location", name)))


def allows(session: FleetSession, cluster: MemberCluster) -> bool:
    """Whether a session may use a location."""
    spec = session.spec
    return (not spec.locations or cluster.metadata.name in spec.locations) and (
        not spec.regions or cluster.spec.region in spec.regions
    )


def _may_go(waiting: Waiting, cluster: str) -> bool:
    if waiting.only is not None:
        return waiting.only == cluster
    return waiting.allowed is None or cluster in waiting.allowed


def _not_ready(session: Session) -> int:
    counts = session.status.counts
    return max(0, (counts.clients or 0) - (counts.ready or 0) - (counts.lost or 0))


def _session_touched(old: FleetSession | None, new: FleetSession | None) -> list[Thing]:
    found = new or old
    return [Thing("session", found.metadata.name)] if found else []


def _binding_touched(old: ClientBinding | None, new: ClientBinding | None) -> list[Thing]:
    found = new or old
    return [Thing("client", found.spec.session, found.spec.client)] if found else []


def _cluster_touched(old: MemberCluster | None, new: MemberCluster | None) -> list[Thing]:
    found = new or old
    return [Thing("location", found.metadata.name)] if found else []


def _part_touched(old: Session | None, new: Session | None) -> list[Thing]:
    found = new or old
    if found is None:
        return []
    name = found.metadata.name
    before = old.status.clients if old is not None else {}
    after = new.status.clients if new is not None else {}
    clients = [client for client, status in after.items() if before.get(client) != status]
    clients += before.keys() - after.keys()
    things = [Thing("client", name, client) for client in clients]
    if old is None or new is None or old.metadata.deleting != new.metadata.deleting:
        things.append(Thing("session", name))
    return things
