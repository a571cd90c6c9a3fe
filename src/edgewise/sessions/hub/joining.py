"""Joining, leaving, disconnecting and coming back: what a client's calls do to the hub.

The order of writes is the whole point. First the hub: whoever creates or changes the binding
has won, and everybody else is told by it where the client is. Only the winner then writes
the member cluster. Whatever is cut short between the two, the repair finishes from the
binding.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from edgewise.api.global_sessions import BindingState, ClientBinding, GlobalSession
from edgewise.errors import ReadableError
from edgewise.kube.errors import ApiError, KubeError
from edgewise.runtime.errors import NotThere, Refused, ServiceError, Unacceptable, Unavailable
from edgewise.sessions.hub.bindings import Bindings, BindingTaken, unanswered
from edgewise.sessions.hub.choosing.ranking import Candidate, Choice, Obstacle, Ranking, rank
from edgewise.sessions.hub.errors import AlreadySeated, HubUnreachable, NoPlace
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.members import Member

ATTEMPTS = 8
LEASE_SECONDS = 30
LONGEST_LEASE_OF_A_CLIENT = 300

_log = logging.getLogger(__name__)

Milliseconds = Annotated[float, Meta(ge=0, le=60_000)]


class JoinRequest(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How a client would like to be placed."""

    location: Annotated[str, Meta(min_length=1, max_length=63)] | None = None
    """This place and no other."""
    latencies: Annotated[dict[str, Milliseconds], Meta(max_length=64)] = {}
    """What the client measured, in milliseconds by location."""
    move: bool = False
    """Give up a seat elsewhere for one in `location`."""
    lease_seconds: Annotated[int, Meta(ge=0, le=86_400)] = LEASE_SECONDS
    """Without a heartbeat for so long the client is disconnected; 0: only when somebody says so.
    With a client token it is 1 to 300."""


class Joined(msgspec.Struct, frozen=True):
    """Where the client sits, or that it is in the queue."""

    binding: ClientBinding
    # The client is ready when the member's controller has seen this generation of the session.
    generation: int = 0
    # Whether this call brought it there.
    new: bool = False


class NotHere(ReadableError):
    """A place turned out not to do; another one may."""

    def __init__(self, cluster: str, why: str) -> None:
        super().__init__(why)
        self.cluster = cluster


class Joining:
    def __init__(self, hub_view: HubView, bindings: Bindings) -> None:
        self._hub_view = hub_view
        self._hub = hub_view.hub
        self._bindings = bindings

    async def join(self, session: GlobalSession, client: str, wish: JoinRequest) -> Joined:
        if wish.move and wish.location is None:
            raise Unacceptable("a move needs a location to move to")
        known = self._hub.binding(session, client)
        if not self._hub.link.ready:
            return self._without_hub(known, wish)
        if session.metadata.deleting:
            raise Refused(f"the session {session.metadata.name} is being deleted")
        if known is not None:
            # What the cache shows may be over; what the hub says now is not.
            known = await self._bindings.read(session, client)
        unfit: dict[str, str] = {}
        for _ in range(ATTEMPTS):
            try:
                if known is None:
                    return await self._enter(session, client, wish, unfit)
                return await self._resume(session, known, wish, unfit)
            except BindingTaken as taken:
                known = taken.binding
            except NotHere as error:
                unfit[error.cluster] = str(error)
                known = await self._bindings.read(session, client)
        raise Unavailable(f"others change the seat of {client} all the time: try again shortly", 1)

    def _without_hub(self, known: ClientBinding | None, wish: JoinRequest) -> Joined:
        """Whoever sits keeps the seat, and can be told so."""
        if known is None or known.spec.state is not BindingState.SEATED or wish.move:
            raise HubUnreachable
        if wish.location not in (None, known.spec.location):
            raise AlreadySeated(known.spec.client, known.spec.location, wish.location or "")
        return Joined(known)

    # Those who have no seat ---------------------------------------------------------

    async def _enter(
        self, session: GlobalSession, client: str, wish: JoinRequest, unfit: dict[str, str]
    ) -> Joined:
        self._check_room_in(session)
        ranking = self._rank(session, wish, unfit)
        if not ranking.choices:
            return await self._queue(session, client, wish, ranking)
        choice = ranking.choices[0]
        template = self._hub.template(session.spec.template)
        if choice.trial and template is not None:
            self._hub_view.begin_trial(choice.name, template)
        with self._hub_view.ledger.claiming(choice.name, session.metadata.name):
            binding = await self._bindings.create(
                session,
                client,
                state=BindingState.SEATED,
                location=choice.name,
                only=wish.location or "",
                latencies=wish.latencies,
                lease_seconds=wish.lease_seconds,
                why=choice.why,
            )
        return await self.settle(session, binding)

    async def _queue(
        self, session: GlobalSession, client: str, wish: JoinRequest, ranking: Ranking
    ) -> Joined:
        _check_location(wish, ranking)
        template = self._hub.template(session.spec.template)
        seconds = template.spec.queue_seconds if template is not None else 0
        if not ranking.full or not seconds:
            raise _no_place(f"no location can take {client} now", ranking)
        binding = await self._bindings.create(
            session,
            client,
            state=BindingState.QUEUED,
            only=wish.location or "",
            until=self._bindings.now() + timedelta(seconds=seconds),
            latencies=wish.latencies,
            lease_seconds=wish.lease_seconds,
            why=ranking.why_not,
        )
        return Joined(binding, new=True)

    def _rank(self, session: GlobalSession, wish: JoinRequest, unfit: dict[str, str]) -> Ranking:
        places = [
            msgspec.structs.replace(place, trouble=unfit[place.name])
            if place.name in unfit
            else place
            for place in self._hub_view.places(session)
        ]
        return rank(places, wish.latencies, only=wish.location)

    def _check_room_in(self, session: GlobalSession) -> None:
        template = self._hub.template(session.spec.template)
        most = template.spec.max_clients if template is not None else 0
        if most and self._hub_view.ledger.in_session(session.metadata.uid) >= most:
            raise Refused(_full_session(session, most))

    # Those who have one -------------------------------------------------------------

    async def _resume(
        self, session: GlobalSession, known: ClientBinding, wish: JoinRequest, unfit: dict[str, str]
    ) -> Joined:
        spec = known.spec
        if spec.state is BindingState.QUEUED:
            return Joined(known)
        if wish.location not in (None, spec.location):
            if not wish.move:
                raise AlreadySeated(spec.client, spec.location, wish.location or "")
            ranking = self._rank(session, wish, unfit)
            if not ranking.choices:
                _check_location(wish, ranking)
                raise _no_place(f"{spec.client} stays in {spec.location}", ranking)
            return await self.move(session, known, ranking.choices[0], only=wish.location or "")
        if spec.state is BindingState.DISCONNECTED:
            known = await self._bindings.change(known, state=BindingState.SEATED)
        return await self._seat_again(session, known)

    async def move(
        self, session: GlobalSession, binding: ClientBinding, choice: Choice, **fields: Any
    ) -> Joined:
        """Seat a client in another cluster; the old one is told first, if it can be.

        `fields` are written into the binding with that.
        """
        left = binding.spec.location
        fresh: dict[str, Any] = {"until": None, "only": "", "tried": [], "rounds": 0, "retry": None}
        with self._hub_view.ledger.claiming(choice.name, session.metadata.name):
            moved = await self._bindings.change(
                binding,
                state=BindingState.SEATED,
                location=choice.name,
                moves=binding.spec.moves + bool(left),
                why=choice.why,
                **fresh | fields,
            )
        if left:
            await self._take_out(left, moved)
        return await self.settle(session, moved, before=binding)

    async def _seat_again(self, session: GlobalSession, binding: ClientBinding) -> Joined:
        member = self._hub_view.members.get(binding.spec.location)
        found = self._hub_view.part(binding)
        shown = found.spec.clients.get(binding.spec.client) if found is not None else None
        if found is not None and shown == {"connected": True}:
            return Joined(binding)  # nothing to say that is not said already
        if member is None or not member.ready:
            return Joined(binding)  # the repair says it when the cluster is back
        try:
            return Joined(binding, await self._seat(session, member, binding))
        except (KubeError, ServiceError) as error:
            _log.warning("cannot tell %s of %s: %s", member.name, binding.spec.client, error)
            return Joined(binding)

    # The seat itself ----------------------------------------------------------------

    async def settle(
        self, session: GlobalSession, binding: ClientBinding, before: ClientBinding | None = None
    ) -> Joined:
        """Make a binding that was just written come true, or make it what it was before."""
        cluster = binding.spec.location
        place = next(
            (each for each in self._hub_view.places(session) if each.name == cluster), None
        )
        tight = place is not None and self._is_tight(place)
        if tight:
            await self._confirm(session, binding, before)
        member = self._hub_view.members.get(cluster)
        if member is None:
            raise await self._give_back(binding, before, "is not connected")
        try:
            generation = await self._seat(session, member, binding)
        except KubeError as error:
            if unanswered(error):
                raise await self._give_back(binding, before, "does not answer") from error
            await self._give_back(binding, before, "refused")
            raise Refused(f"{cluster} refuses {binding.spec.client}: {error}") from error
        except ServiceError as error:
            raise await self._give_back(binding, before, f"cannot take it ({error})") from error
        if not tight:
            await self._confirm(session, binding, before)
        return Joined(binding, generation, new=True)

    async def _seat(self, session: GlobalSession, member: Member, binding: ClientBinding) -> int:
        clients = {binding.spec.client: True}
        try:
            found = await self._hub_view.seats.put(member, session, clients)
        except ApiError:
            raise
        except KubeError:
            # A connection that the other side had closed looks like an outage; only once.
            found = await self._hub_view.seats.put(member, session, clients)
        return found.metadata.generation

    def _is_tight(self, place: Candidate) -> bool:
        """Whether the last seats are at stake: then look before telling the cluster."""
        if place.capacity is None:
            return False
        return place.capacity - place.taken <= max(8, place.capacity // 20)

    async def _confirm(
        self, session: GlobalSession, binding: ClientBinding, before: ClientBinding | None
    ) -> None:
        """The seat was there to take, or it is given back."""
        location = self._hub.location(binding.spec.location)
        template = self._hub.template(session.spec.template)
        capacity = location.spec.capacity if location is not None else None
        most = template.spec.max_clients if template is not None else 0
        if capacity is None and not most:
            return
        others = await self._hub_view.ledger.before(binding)
        if others is None:
            raise await self._give_back(binding, before, "could not confirm the seat")
        if capacity is not None and others.in_cluster >= capacity:
            raise await self._give_back(binding, before, f"is full ({capacity} clients)")
        if most and before is None and others.in_session >= most:
            await self._give_back(binding, None, "has no room")
            raise Refused(_full_session(session, most))

    async def _give_back(
        self, binding: ClientBinding, before: ClientBinding | None, why: str
    ) -> NotHere:
        if before is None:
            await self._bindings.remove(binding)
        else:
            kept = (
                *("state", "location", "since", "until", "only"),
                *("moves", "tried", "rounds", "retry", "why"),
            )
            await self._bindings.change(
                binding, **{field: getattr(before.spec, field) for field in kept}
            )
        await self._take_out(binding.spec.location, binding)
        return NotHere(binding.spec.location, why)

    async def _take_out(self, cluster: str, binding: ClientBinding) -> None:
        """Remove the client from a cluster now, or leave that to the repair."""
        member = self._hub_view.members.get(cluster)
        found = member.session(binding.spec.session) if member is not None else None
        if member is None or found is None or not member.ready:
            return
        try:
            await self._hub_view.seats.take_out(member, found, [binding.spec.client])
        except KubeError as error:
            _log.warning("cannot take %s out of %s: %s", binding.spec.client, cluster, error)

    # Leaving, disconnecting, coming back ------------------------------------------

    async def leave(self, session: GlobalSession, client: str) -> None:
        """Gone afterwards, whether it was there or not."""
        binding = await self._read(session, client)
        while binding is not None:
            try:
                await self._bindings.remove(binding)
            except BindingTaken as taken:
                binding = taken.binding
                continue
            await self._take_out(binding.spec.location, binding)
            return

    async def disconnect(self, session: GlobalSession, client: str) -> ClientBinding:
        """The client is disconnected: it keeps its seat for as long as the template says."""
        return await self._set_connected(session, client, connected=False)

    async def reconnect(self, session: GlobalSession, client: str) -> ClientBinding:
        return await self._set_connected(session, client, connected=True)

    async def _set_connected(
        self, session: GlobalSession, client: str, *, connected: bool
    ) -> ClientBinding:
        wanted = BindingState.SEATED if connected else BindingState.DISCONNECTED
        binding = await self._read(session, client)
        for _ in range(ATTEMPTS):
            if binding is None:
                raise NotThere(f"{client} is not in {session.metadata.name}: join first")
            if binding.spec.state in (wanted, BindingState.QUEUED):
                return binding
            try:
                binding = await self._bindings.change(binding, state=wanted)
            except BindingTaken as taken:
                binding = taken.binding
                continue
            await self._tell(session, binding, connected=connected)
            return binding
        raise Unavailable(f"others change the seat of {client} all the time: try again shortly", 1)

    async def _tell(
        self, session: GlobalSession, binding: ClientBinding, *, connected: bool
    ) -> None:
        member = self._hub_view.members.get(binding.spec.location)
        if member is None or not member.ready:
            return
        try:
            await self._hub_view.seats.put(member, session, {binding.spec.client: connected})
        except (KubeError, ServiceError) as error:
            _log.warning("cannot tell %s of %s: %s", member.name, binding.spec.client, error)

    async def _read(self, session: GlobalSession, client: str) -> ClientBinding | None:
        if not self._hub.link.ready:
            raise HubUnreachable
        return await self._bindings.read(session, client)


def _check_location(wish: JoinRequest, ranking: Ranking) -> None:
    """A location that was asked for has to be one."""
    refusal = ranking.refused.get(wish.location or "")
    if refusal is not None and refusal.obstacle in (Obstacle.UNKNOWN, Obstacle.NOT_ALLOWED):
        raise Unacceptable(f"{wish.location} {refusal.why}")


def _no_place(what: str, ranking: Ranking) -> ServiceError:
    text = f"{what}: {ranking.why_not}"
    obstacles = {refusal.obstacle for refusal in ranking.refused.values()}
    return Unavailable(text) if Obstacle.UNHEALTHY in obstacles else NoPlace(text)


def _full_session(session: GlobalSession, most: int) -> str:
    return f"the session {session.metadata.name} is full: its template allows {most} clients"
