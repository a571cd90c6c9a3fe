"""Makes the member clusters say what the hub says, whatever was cut short before.

Joins and leaves write the members themselves, so usually there is nothing to do here. What
is found missing or too much must therefore stay so for a moment before it is acted upon,
and is compared with the hub itself, not with a cache, before anything is taken away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Iterator

import msgspec

from edgewise.api.global_sessions import FINALIZER, SESSION_LABEL, ClientBinding, GlobalSession
from edgewise.api.sessions import Session
from edgewise.kube.client import Patch
from edgewise.kube.errors import Conflict, Invalid, NotFound
from edgewise.kube.selectors import is_name, label_is
from edgewise.runtime.keyed_workers import KeyedWorkers
from edgewise.sessions.hub.bindings import Bindings, BindingTaken
from edgewise.sessions.hub.errors import HubUnreachable
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.members import Member
from edgewise.sessions.hub.metrics import REPAIRS
from edgewise.sessions.hub.records import by_session
from edgewise.sessions.hub.repair.plan import Part, RepairPlan, Seen, plan_repair

GRACE_SECONDS = 1.0
_log = logging.getLogger(__name__)


class Repair:
    def __init__(
        self,
        hub_view: HubView,
        bindings: Bindings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hub_view = hub_view
        self._hub = hub_view.hub
        self._bindings = bindings
        self._monotonic = monotonic
        self._noticed: dict[str, dict[Hashable, float]] = {}
        self.workers = KeyedWorkers("repair", self.repair)
        self._hub.sessions.subscribe(self._session_changed)
        self._hub.bindings.subscribe(self._binding_changed)
        hub_view.members.on_open(self._member_opened)

    def add_all(self) -> None:
        """Everything is due: after a start, or when a cluster is back."""
        names = {session.metadata.name for session in self._hub.sessions}
        names |= {binding.spec.session for binding in self._hub.bindings}
        for member in self._hub_view.members.all():
            names |= {session.metadata.name for session in member.sessions}
        for name in names:
            self.workers.queue.add(name, bulk=True)

    async def repair(self, name: str) -> float | None:
        if not self._hub.link.ready:
            raise HubUnreachable
        session = self._hub.session(name)
        plan = plan_repair(self._look(name, session, self._hub.bindings.by(by_session, name)))
        if plan.idle:
            self._noticed.pop(name, None)
            return None
        if session is None or not session.metadata.deleting:
            ripe, wait = self._ripe(name, plan)
            if not ripe:
                return wait
            session, bindings = await self._ask_hub(name)
            plan = _only(plan_repair(self._look(name, session, bindings)), ripe)
        await self._carry_out(session, plan)
        # Looked at once more, in case something came between the looking and the doing.
        return GRACE_SECONDS

    # Looking ------------------------------------------------------------------------

    def _look(
        self, name: str, session: GlobalSession | None, bindings: list[ClientBinding]
    ) -> Seen:
        parts = {}
        for location in self._hub_view.seen.all():
            member = self._hub_view.members.get(location.name)
            parts[location.name] = Part(
                found=member.session(name) if member is not None else None,
                visible=location.ready,
                allowed=session is not None and location.open_to(session),
            )
        return Seen(hub_id=self._hub.hub_id, session=session, bindings=bindings, parts=parts)

    def _ripe(self, name: str, plan: RepairPlan) -> tuple[set[Hashable], float]:
        """What has been due for the whole grace, and when the next thing will have been."""
        now = self._monotonic()
        before = self._noticed.get(name, {})
        noticed = self._noticed[name] = {what: before.get(what, now) for what in _items(plan)}
        ages = {what: now - since for what, since in noticed.items()}
        ripe = {what for what, age in ages.items() if age >= GRACE_SECONDS}
        return ripe, GRACE_SECONDS - max(ages.values())

    async def _ask_hub(self, name: str) -> tuple[GlobalSession | None, list[ClientBinding]]:
        """Session and bindings as the hub itself has them at this moment."""
        client, namespace = self._hub.client, self._hub.namespace
        if not is_name(name):  # a member may call its Sessions anything
            return None, []
        session: GlobalSession | None = None
        try:
            session = await client.get(GlobalSession, name, namespace)
        except NotFound:
            session = None
        listing = await client.list(ClientBinding, namespace, labels=label_is(SESSION_LABEL, name))
        return session, listing.items

    # Doing --------------------------------------------------------------------------

    async def _carry_out(self, session: GlobalSession | None, plan: RepairPlan) -> None:
        work = [self._close(cluster, found) for cluster, found in plan.close.items()]
        work += [self._drop(binding) for binding in plan.drop]
        if session is not None:
            work += [self._open(cluster, session) for cluster in plan.open]
            work += [self._put(cluster, session, plan) for cluster in plan.put]
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        troubles = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if plan.release and session is not None:
            await self._release(session)
        if troubles:
            # One cluster's trouble does not keep the others from being repaired.
            raise troubles[0]

    async def _open(self, cluster: str, session: GlobalSession) -> None:
        member = self._member(cluster)
        if member is not None:
            await self._hub_view.seats.open(member, session)
            REPAIRS.labels("open").inc()
            _log.info("%s: made in %s", session.metadata.name, cluster)

    async def _close(self, cluster: str, found: Session) -> None:
        member = self._member(cluster)
        if member is not None:
            await self._hub_view.seats.close(member, found)
            REPAIRS.labels("close").inc()
            _log.info("%s: removed from %s", found.metadata.name, cluster)

    async def _put(self, cluster: str, session: GlobalSession, plan: RepairPlan) -> None:
        member = self._member(cluster)
        if member is not None:
            await self._hub_view.seats.put(member, session, plan.put[cluster])
            number = len(plan.put[cluster])
            REPAIRS.labels("client").inc(number)
            _log.info("%s: %s told of %d clients", session.metadata.name, cluster, number)

    async def _drop(self, binding: ClientBinding) -> None:
        try:
            await self._bindings.remove(binding)
        except BindingTaken:
            return  # somebody changed it: look again

    async def _release(self, session: GlobalSession) -> None:
        meta = session.metadata
        if FINALIZER not in meta.finalizers:
            return
        at = meta.finalizers.index(FINALIZER)
        try:
            await self._hub.client.patch(
                GlobalSession,
                meta.name,
                meta.namespace,
                type=Patch.JSON,
                body=[
                    {"op": "test", "path": "/metadata/uid", "value": meta.uid},
                    {"op": "test", "path": f"/metadata/finalizers/{at}", "value": FINALIZER},
                    {"op": "remove", "path": f"/metadata/finalizers/{at}"},
                ],
            )
        except (Conflict, Invalid, NotFound) as error:
            _log.debug("%s: released by somebody else: %s", meta.name, error)
            return
        _log.info("%s: gone everywhere", meta.name)

    def _member(self, cluster: str) -> Member | None:
        return self._hub_view.members.get(cluster)

    # What makes a session due ---------------------------------------------------------

    def _session_changed(
        self, old: GlobalSession | None, new: GlobalSession | None, bulk: bool
    ) -> None:
        for found in (old, new):
            if found is not None:
                self.workers.queue.add(found.metadata.name, bulk=bulk)

    def _binding_changed(
        self, old: ClientBinding | None, new: ClientBinding | None, bulk: bool
    ) -> None:
        found = new or old
        if found is not None:
            self.workers.queue.add(found.spec.session, bulk=bulk)

    def _member_opened(self, member: Member) -> None:
        def changed(old: Session | None, new: Session | None, bulk: bool) -> None:
            found = new or old
            if found is not None and _matters(old, new):
                self.workers.queue.add(found.metadata.name, bulk=bulk)

        def health_changed() -> None:
            if member.ready:
                self.add_all()

        member.sessions.subscribe(changed)
        member.on_health(health_changed)


def _items(plan: RepairPlan) -> Iterator[Hashable]:
    """Everything that a plan wants to do, one by one."""
    yield from (("open", cluster) for cluster in plan.open)
    yield from (("close", cluster) for cluster in plan.close)
    yield from (("drop", binding.metadata.name) for binding in plan.drop)
    for cluster, clients in plan.put.items():
        yield from ((cluster, client, connected) for client, connected in clients.items())


def _only(plan: RepairPlan, chosen: set[Hashable]) -> RepairPlan:
    """The part of a plan that was chosen."""
    put = {
        cluster: {
            c: connected for c, connected in clients.items() if (cluster, c, connected) in chosen
        }
        for cluster, clients in plan.put.items()
    }
    return msgspec.structs.replace(
        plan,
        open=[cluster for cluster in plan.open if ("open", cluster) in chosen],
        close={name: found for name, found in plan.close.items() if ("close", name) in chosen},
        drop=[binding for binding in plan.drop if ("drop", binding.metadata.name) in chosen],
        put={cluster: clients for cluster, clients in put.items() if clients},
    )


def _matters(old: Session | None, new: Session | None) -> bool:
    """Whether anything changed that a plan depends on: not the status."""
    if old is None or new is None:
        return True
    before, after = old.metadata, new.metadata
    return (
        before.generation != after.generation
        or before.labels != after.labels
        or before.deleting != after.deleting
    )
