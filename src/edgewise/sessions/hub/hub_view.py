"""All clusters as one replica sees it now: read from caches, never from an API server."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from edgewise.api.clusters import Cluster
from edgewise.api.global_sessions import BindingState, ClientBinding, GlobalSession, Location
from edgewise.api.sessions import ClientStatus, Session, SessionTemplate
from edgewise.sessions.hub.changes import Changes, Thing
from edgewise.sessions.hub.choosing.degraded import PORTS_EXHAUSTED, Trials, describe, mark_of
from edgewise.sessions.hub.choosing.ledger import Ledger
from edgewise.sessions.hub.choosing.public_ports import PublicPorts
from edgewise.sessions.hub.choosing.queueing import Waiting, in_order
from edgewise.sessions.hub.choosing.ranking import Candidate
from edgewise.sessions.hub.choosing.starting import ready_seconds
from edgewise.sessions.hub.locations import Locations, LocationSeen
from edgewise.sessions.hub.member_writer import MemberWriter
from edgewise.sessions.hub.members import Member, Members
from edgewise.sessions.hub.records import Hub, by_location
from edgewise.sessions.hub.turn_credentials import TurnDesk
from edgewise.sessions.hub.views import (
    ClientState,
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

# After its deadline, the client of a trial counts as failed within so many seconds.
TRIAL_MARGIN_SECONDS = 30.0


class _Line(msgspec.Struct, frozen=True):
    """The queue, and what follows from it."""

    version: tuple[int, ...]
    queue: list[Waiting]
    places: dict[str, int]
    positions: dict[str, int]
    ports: dict[str, Counter[str]]  # by location: what those who may go there need


class HubView:
    def __init__(
        self, hub: Hub, members: Members, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.hub = hub
        self.members = members
        self.seen = Locations(hub, members)
        self.ledger = Ledger(hub.bindings)
        self._ports = PublicPorts(hub, self.ledger)
        self.seats = MemberWriter(hub)
        self.changes = Changes()
        self._clock = clock
        self._trials = Trials()
        self._turn = TurnDesk(hub, clock=clock)
        self._waiting: dict[str, dict[str, int]] = {}
        self._known_line: _Line | None = None
        self.changes.follow("f", hub.sessions, _session_touched)
        self.changes.follow("b", hub.bindings, _binding_touched)
        self.changes.follow("l", hub.locations, _location_touched)
        self.changes.follow("c", hub.registry.clusters, self._cluster_touched)
        members.on_open(self._member_opened)
        members.on_change(self._health_changed)

    # Places -------------------------------------------------------------------------

    def places(self, session: GlobalSession | None = None) -> list[Candidate]:
        """All locations, with what speaks for and against each of them for a session."""
        queued = self._queued_for()
        template = self.hub.template(session.spec.template) if session is not None else None
        needed = self._ports.needs(template)
        places = []
        for location in self.seen.all():
            place = self._place(location, queued, session)
            if needed or session is None:  # counted only for who asks: a join does not wait for it
                free = self._ports.free(self.members.get(place.name))
                place = msgspec.structs.replace(place, free_ports=free)
            if needed:
                rest = place.without(self._line().ports.get(place.name, {}))
                place = msgspec.structs.replace(place, exhausted=rest.short_of(needed))
            places.append(self._for(template, location, place))
        return places

    def begin_trial(self, location: str, template: SessionTemplate) -> None:
        """A client is sent where its template did badly, to find out whether it still does."""
        name = template.metadata.name
        self._trials.begin(location, name, ready_seconds(template) + TRIAL_MARGIN_SECONDS)

    def _for(
        self, template: SessionTemplate | None, location: LocationSeen, place: Candidate
    ) -> Candidate:
        """A place as it is for the clients of a template."""
        mark = mark_of(location.degraded, template)
        if mark is None or template is None:
            return place
        name = template.metadata.name
        if mark.reason == PORTS_EXHAUSTED:
            return msgspec.structs.replace(place, exhausted=describe(mark, name))
        due = mark.trial.timestamp() <= self._clock()
        trial = due and self._trials.open(place.name, name)
        return msgspec.structs.replace(place, degraded=describe(mark, name), trial=trial)

    def _place(
        self, location: LocationSeen, queued: Mapping[str, int], session: GlobalSession | None
    ) -> Candidate:
        name = location.name
        return Candidate(
            name=name,
            clients=self.ledger.seated(name),
            queued=queued.get(name, 0),
            waiting=sum(self._waiting.get(name, {}).values()),
            capacity=location.capacity,
            cordoned=location.cordoned,
            trouble=location.trouble,
            allowed=session is None or location.open_to(session),
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
            *self.seen.version,
            self.hub.sessions.revision,
            self.hub.templates.revision,
        )
        if self._known_line is None or self._known_line.version != version:
            queue = in_order(self._waiting_of(binding) for binding in self.ledger.queued())
            places = {
                location.metadata.name: sum(_may_go(each, location.metadata.name) for each in queue)
                for location in self.hub.locations
                if queue
            }
            ports = {
                name: sum(
                    (Counter(each.ports) for each in queue if _may_go(each, name)), Counter[str]()
                )
                for name in places
            }
            positions = {waiting.id: number for number, waiting in enumerate(queue, 1)}
            self._known_line = _Line(version, queue, places, positions, ports)
        return self._known_line

    def _waiting_of(self, binding: ClientBinding) -> Waiting:
        spec = binding.spec
        session = self.hub.session(spec.session)
        limited = session is not None and (session.spec.locations or session.spec.regions)
        allowed = None
        if session is not None and limited:
            allowed = frozenset(
                location.name for location in self.seen.all() if location.open_to(session)
            )
        template = self.hub.template(session.spec.template) if session is not None else None
        degraded: dict[str, str] = {}
        exhausted: dict[str, str] = {}
        for location in self.hub.locations:
            mark = mark_of(location.status.degraded, template)
            if mark is not None and template is not None:
                against = exhausted if mark.reason == PORTS_EXHAUSTED else degraded
                against[location.metadata.name] = describe(mark, template.metadata.name)
        return Waiting(
            degraded=degraded,
            exhausted=exhausted,
            ports=self._ports.needs(template),
            id=binding.metadata.name,
            since=spec.since.timestamp(),
            until=spec.until.timestamp() if spec.until else float("inf"),
            latencies=spec.latencies,
            only=spec.only or None,
            allowed=allowed,
        )

    # Views --------------------------------------------------------------------------

    def locations(self) -> list[LocationView]:
        found = sorted(self.seen.all(), key=lambda location: location.name)
        return [self._view_location(location) for location in found]

    def location(self, name: str) -> LocationView | None:
        return next((view for view in self.locations() if view.name == name), None)

    def view_location(self, location: Location) -> LocationView:
        """A location as an object that was just written says, which the cache may not show yet."""
        return self._view_location(self.seen.join(location))

    def _view_location(self, location: LocationSeen) -> LocationView:
        marks = {
            name: mark
            for name in location.degraded
            if (mark := mark_of(location.degraded, self.hub.template(name))) is not None
        }
        return view_location(self._place(location, self._queued_for(), None), location, marks)

    def client(
        self, binding: ClientBinding, *, private: bool = True, credentials: bool = True
    ) -> ClientView:
        """With `private`, also what leads to the client's pods.

        And then, with `credentials`, what it shows to TURN servers. Those end by themselves, so
        they do not belong into anything that is kept.
        """
        queued = binding.spec.state is BindingState.QUEUED
        name = binding.spec.location
        member = self.members.get(name)
        return view_client(
            binding,
            self.status(binding),
            trouble=self.members.trouble(name) if name else "",
            silent_since=self.members.since(name) if name else None,
            position=self._line().positions.get(binding.metadata.name) if queued else None,
            private=private,
            seat_key=member.seat_key if member is not None and private else None,
            ice_servers=self._turn.ice_servers(binding) if private and credentials else (),
        )

    def status(self, binding: ClientBinding) -> ClientStatus | None:
        """What the client's cluster says of it."""
        found = self.part(binding)
        return found.status.clients.get(binding.spec.client) if found is not None else None

    def session_of(self, binding: ClientBinding) -> GlobalSession | None:
        """The session of a binding, and not a namesake of it."""
        session = self.hub.session(binding.spec.session)
        if session is None or session.metadata.uid != binding.spec.session_uid:
            return None
        return session

    def part(self, binding: ClientBinding) -> Session | None:
        """The Session in the client's cluster, if it belongs to the client's session."""
        member = self.members.get(binding.spec.location)
        session = self.session_of(binding)
        if member is None or session is None:
            return None
        found = member.session(binding.spec.session)
        return found if found is not None and self.seats.ours(found, session) else None

    def summary(self, session: GlobalSession) -> SessionSummary:
        bindings = self.hub.bindings_of(session)
        return summarize(session, [self._state(each) for each in bindings])

    def _state(self, binding: ClientBinding) -> ClientState:
        silent = bool(binding.spec.location and self.members.trouble(binding.spec.location))
        return client_state(binding, self.status(binding), silent=silent)

    def session(self, session: GlobalSession, *, private: bool = True) -> SessionView:
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

    def _parts(self, session: GlobalSession) -> dict[str, SessionLocationView]:
        parts = {}
        for location in self.seen.all():
            if not location.open_to(session):
                continue
            name = location.name
            member = self.members.get(name)
            found = member.session(session.metadata.name) if member else None
            parts[name] = view_part(
                found,
                ours=found is None or self.seats.ours(found, session),
                deleting=session.metadata.deleting,
                trouble=location.trouble,
            )
        return parts

    # Members that come --------------------------------------------------------------

    def _member_opened(self, member: Member) -> None:
        name = member.name
        counts: dict[str, int] = {}
        there = {location.metadata.name for location in self.hub.locations}
        self._waiting = {each: self._waiting[each] for each in self._waiting if each in there}
        self._waiting[name] = counts

        def count(old: Session | None, new: Session | None, _: bool) -> None:
            if old is not None:
                counts.pop(old.metadata.name, None)
            if new is not None and (waiting := _not_ready(new)):
                counts[new.metadata.name] = waiting

        member.sessions.subscribe(count)
        self.changes.follow(f"s/{name}", member.sessions, _part_touched)
        member.on_health(lambda: self._health_changed(name))
        member.on_seat_key(lambda: self.changes.note(Thing("location", name)))

    def _cluster_touched(self, old: Cluster | None, new: Cluster | None) -> list[Thing]:
        found = new or old
        names = self.seen.in_cluster(found.metadata.name) if found else []
        return [Thing("location", name) for name in names]

    def _health_changed(self, name: str) -> None:
        """A location that falls silent takes the truth about its clients along."""
        self.changes.note(Thing("location", name))
        for binding in self.hub.bindings.by(by_location, name):
            self.changes.note(Thing("client", binding.spec.session, binding.spec.client))


def _may_go(waiting: Waiting, location: str) -> bool:
    if location in waiting.exhausted:
        return False
    if waiting.only is not None:
        return waiting.only == location
    return waiting.allowed is None or location in waiting.allowed


def _not_ready(session: Session) -> int:
    counts = session.status.counts
    return max(0, (counts.clients or 0) - (counts.ready or 0) - (counts.disconnected or 0))


def _session_touched(old: GlobalSession | None, new: GlobalSession | None) -> list[Thing]:
    found = new or old
    return [Thing("session", found.metadata.name)] if found else []


def _binding_touched(old: ClientBinding | None, new: ClientBinding | None) -> list[Thing]:
    found = new or old
    return [Thing("client", found.spec.session, found.spec.client)] if found else []


def _location_touched(old: Location | None, new: Location | None) -> list[Thing]:
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
