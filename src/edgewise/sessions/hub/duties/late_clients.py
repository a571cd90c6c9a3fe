"""Clients whose pods do not become ready in time are moved to the next best place.

Whoever takes a seat is watched until it is ready, once; later troubles are its cluster's to mend.
A member's operator says who is late. The server keeps a deadline of its own besides, a little
longer, for members whose operator is dead or does not know of deadlines. That clock is this
process' own: a leader that takes over begins to count anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec

from edgewise.api.global_sessions import (
    BindingState,
    ClientBinding,
    GlobalSession,
    Location,
)
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.errors import KubeError, NotFound
from edgewise.kube.objects import Key
from edgewise.runtime.budgets import Budgets
from edgewise.sessions.hub.bindings import Bindings, BindingTaken
from edgewise.sessions.hub.choosing.degraded import Lessons
from edgewise.sessions.hub.choosing.starting import (
    Move,
    Rest,
    Sight,
    Stage,
    look_at,
    may_move,
    next_step,
    ready_seconds,
    resting,
)
from edgewise.sessions.hub.duties.moving import move_on
from edgewise.sessions.hub.duties.several import for_each
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.joining import Joining
from edgewise.sessions.hub.metrics import LATE_MOVES

# The operator's own deadline comes first, and is told with its reason.
GRACE_SECONDS = 10.0
# Of a time when nobody looked (another led, or the process stood still) no more than this counts.
STANDSTILL_SECONDS = 5.0
MOVES_PER_MINUTE = 300
BURST = 30
AT_ONCE = 1000  # looked at before others get a turn
LOOK_SECONDS = 2.0  # what takes longer goes on beside the next look

_log = logging.getLogger(__name__)


class _Waiter(msgspec.Struct):
    new: bool  # its seat was taken while we watched
    since: float | None = None  # when it was first seen waiting
    failed: bool = False  # and that has been counted


class _Late(msgspec.Struct, frozen=True):
    waiter: _Waiter
    since: float
    binding: ClientBinding
    session: GlobalSession
    template: SessionTemplate
    sight: Sight
    overdue: bool  # else there is still time, but its cluster says that it is no use

    @property
    def what(self) -> str:
        """What happened to it, for people."""
        left, told = self.binding.spec.location, self.sight.failure.text
        if self.sight.failure.exhausted:
            return f"{left} cannot serve it ({told})"
        return f"{left} did not make it ready within {ready_seconds(self.template)} s ({told})"


class LateClients:
    def __init__(
        self,
        hub_view: HubView,
        joining: Joining,
        bindings: Bindings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hub_view = hub_view
        self._hub = hub_view.hub
        self._joining = joining
        self._bindings = bindings
        self._monotonic = monotonic
        self._lessons = Lessons()
        self._waiting: dict[str, _Waiter] = {}
        self._looked = float("-inf")
        self._busy: dict[str, asyncio.Task[None]] = {}  # by cluster
        self._budget = Budgets(MOVES_PER_MINUTE / 60, BURST, monotonic=monotonic)
        hub_view.hub.bindings.subscribe(self._changed)

    async def look(self) -> None:
        self._notice_standstill()
        late = await self._find_late()
        for each in late:
            if not each.waiter.failed:
                each.waiter.failed = True
                self._lessons.failed(each.binding.spec.location, each.template, each.sight.failure)
        await self._write_marks()
        await self._see_to_all(late)

    async def end(self) -> None:
        """Another may lead from now on."""
        left = list(self._busy.values())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _see_to_all(self, late: list[_Late]) -> None:
        """Each cluster by itself: one that takes its time, or only pretends to answer, holds up
        the clients of no other."""
        by_location: dict[str, list[_Late]] = {}
        for each in sorted(late, key=lambda each: each.since):
            by_location.setdefault(each.binding.spec.location, []).append(each)
        for cluster, its in by_location.items():
            if cluster not in self._busy:
                task = asyncio.create_task(self._see_to_clients(its), name=cluster)
                self._busy[cluster] = task
                task.add_done_callback(lambda done: self._busy.pop(done.get_name(), None))
        if self._busy:
            done, _ = await asyncio.wait(self._busy.values(), timeout=LOOK_SECONDS)
            for task in done:
                task.result()

    async def _see_to_clients(self, late: list[_Late]) -> None:
        shown: dict[tuple[str, str], Session | None] = {}
        by_name = {each.binding.metadata.name: each for each in late}
        await for_each(
            [each.binding for each in late],
            lambda binding: self._see_to(by_name[binding.metadata.name], shown),
        )

    # Who is late --------------------------------------------------------------------

    def _changed(self, old: ClientBinding | None, new: ClientBinding | None, bulk: bool) -> None:
        if old is not None and (new is None or new.spec.location != old.spec.location):
            waiter = self._waiting.pop(old.metadata.name, None)
            if waiter is None and old.spec.location:
                self._lessons.left(old.spec.location)
        if new is None:
            return
        if new.spec.state is not BindingState.SEATED:
            self._waiting.pop(new.metadata.name, None)
        elif old is None or not _same_seat(old, new):
            # Who comes back to a seat may have been ready in it long ago.
            back = old is not None and old.spec.location == new.spec.location
            self._waiting[new.metadata.name] = _Waiter(not bulk and not back)

    def _notice_standstill(self) -> None:
        now = self._monotonic()
        unseen = now - self._looked - STANDSTILL_SECONDS
        if unseen > 0:
            for waiter in self._waiting.values():
                waiter.new = False
                if waiter.since is not None:
                    waiter.since += unseen
        self._looked = now

    async def _find_late(self) -> list[_Late]:
        late = []
        for number, (name, waiter) in enumerate(list(self._waiting.items()), 1):
            found = self._watch(name, waiter)
            if found is not None:
                late.append(found)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        return late

    def _watch(self, name: str, waiter: _Waiter) -> _Late | None:
        binding = self._hub.bindings.get(Key(self._hub.namespace, name))
        session = self._hub_view.session_of(binding) if binding is not None else None
        template = self._hub.template(session.spec.template) if session is not None else None
        if binding is None or session is None or session.metadata.deleting or template is None:
            return None
        member = self._hub_view.members.get(binding.spec.location)
        if member is None or not member.ready:
            waiter.since = None  # nobody can say; if it stays away, its clients are moved for that
            return None
        sight = look_at(self._hub_view.part(binding), binding.spec.client)
        if sight.stage is not Stage.WAITING:
            if sight.stage is Stage.READY and (waiter.new or waiter.since is not None):
                self._lessons.worked(binding.spec.location, template)
            self._waiting.pop(name, None)
            return None
        now = self._monotonic()
        if waiter.since is None:
            waiter.since = now
        waited = now - waiter.since
        overdue = sight.late or waited >= ready_seconds(template) + GRACE_SECONDS
        if not overdue and not sight.exhausted:
            return None
        return _Late(waiter, waiter.since, binding, session, template, sight, overdue)

    # What is done about it ----------------------------------------------------------

    async def _see_to(self, late: _Late, shown: dict[tuple[str, str], Session | None]) -> None:
        if not may_move(late.session, late.binding.spec) or self._step(late) is None:
            return
        if not await self._still_waits(late, shown) or self._budget.spend("move"):
            return  # in the latter case it is looked at again in a second
        match self._step(late):  # again, because others have moved meanwhile
            case Move() as step:
                await self._move(late, step)
            case Rest() as step:
                await self._rest(late, step)

    def _step(self, late: _Late) -> Move | Rest | None:
        spec, now = late.binding.spec, self._bindings.now()
        if resting(spec, now):
            return None
        step = next_step(spec, self._hub_view.places(late.session), now=now, what=late.what)
        # As long as there is time, it is better off where it may yet get what it needs.
        return None if isinstance(step, Rest) and not late.overdue else step

    async def _move(self, late: _Late, step: Move) -> None:
        binding, best = late.binding, step.choices[0]
        if best.trial:
            self._hub_view.begin_trial(best.name, late.template)
        moved = await move_on(
            self._joining,
            self._bindings,
            late.session,
            binding,
            [choice for choice in step.choices if choice is best or not choice.trial],
            because=late.what,
            tried=step.tried,
            rounds=step.rounds,
        )
        if moved:
            LATE_MOVES.labels(binding.spec.location).inc()
            spec = binding.spec
            _log.warning("%s of %s goes to %s: %s", spec.client, spec.session, moved, late.what)

    async def _rest(self, late: _Late, step: Rest) -> None:
        try:
            await self._bindings.change(
                late.binding, tried=step.tried, rounds=step.rounds, retry=step.until, why=step.why
            )
        except BindingTaken:
            return

    async def _still_waits(self, late: _Late, shown: dict[tuple[str, str], Session | None]) -> bool:
        """By the cluster itself and not by a cache, before anything is taken away."""
        spec = late.binding.spec
        key = spec.location, spec.session
        if key not in shown:
            member = self._hub_view.members.get(spec.location)
            if member is None:
                return False
            try:
                shown[key] = await member.client.get(Session, spec.session, member.namespace)
            except NotFound:
                shown[key] = None
        return look_at(shown[key], spec.client).stage is Stage.WAITING

    # Where it keeps happening -------------------------------------------------------

    async def _write_marks(self) -> None:
        plan = self._lessons.plan(
            {location.metadata.name: location for location in self._hub.locations},
            {template.metadata.name: template for template in self._hub.templates},
            self._bindings.now().replace(microsecond=0),
        )
        unwritten: set[str] = set()
        for location, marks in plan.items():
            try:
                await self._hub.client.patch(
                    Location,
                    location,
                    self._hub.namespace,
                    subresource="status",
                    body={"status": {"degraded": marks}},
                )
            except KubeError as error:
                # It may be gone by now, or as full as it may be: nobody else waits for that.
                _log.warning("what is degraded in %s could not be written: %s", location, error)
                unwritten.add(location)
                continue
            for template, mark in marks.items():
                if mark is None:
                    _log.info("%s is no longer degraded for %s", location, template)
                else:
                    text = f"{mark.reason} {mark.message}".strip()
                    _log.warning("%s is degraded for %s: %s", location, template, text)
        self._lessons.written(but_of=unwritten)


def _same_seat(old: ClientBinding, new: ClientBinding) -> bool:
    return old.spec.state is BindingState.SEATED and old.spec.location == new.spec.location
