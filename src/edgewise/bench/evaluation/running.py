"""One trace put to one case: its events at their times, with real clients."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from edgewise.bench.evaluation.cases.case import Case
from edgewise.bench.evaluation.cases.retrying import insist
from edgewise.bench.evaluation.choosing import Choosing
from edgewise.bench.evaluation.records import Kind, Record
from edgewise.bench.evaluation.trace import Do, Event, Trace
from edgewise.bench.evaluation.visiting import Keep, Visitor
from edgewise.bench.evaluation.workloads.workload import NAMESPACE, Workload
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Pod
from edgewise.runtime.garbage import put_old_objects_aside


class Place(msgspec.Struct, frozen=True):
    """A cluster with the case that runs there."""

    client: Client
    case: Case
    workload: Workload


class TraceRun:
    """Carries out the events at their times; what is slow delays nothing that comes after it."""

    def __init__(
        self,
        places: Sequence[Place],
        trace: Trace,
        *,
        choosing: Choosing,
        speed: float,
        keep: Keep,
        tell: Callable[[str], None],
    ) -> None:
        """Each client belongs to the place that is chosen for it; a session is in all of them."""
        self._places = places
        self._trace = trace
        self._speed = speed
        self._keep = keep
        self._tell = tell
        self._chance = random.Random(f"pods/{trace.seed}")
        self._visitors: dict[tuple[str, str], tuple[Visitor, asyncio.Task[None], Place]] = {}
        self._sessions: dict[str, asyncio.Task[None]] = {}
        self._choosing = choosing

    def elapsed(self) -> float:
        return time.perf_counter() - self._began

    async def prepare(self) -> None:
        """What a design has ready before the first client; the clock runs from here on."""
        for place in self._places:
            await place.case.prepare(self._trace)
        self._began = time.perf_counter()

    async def run(self) -> None:
        # Else every client waits while Python looks for garbage among all that was imported.
        end = put_old_objects_aside()
        try:
            gc.collect()
            await self._all_events()
        finally:
            end()

    async def _all_events(self) -> None:
        self._began = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as self._tasks:
                told = 0.0
                for event in self._trace.events:
                    due = event.at / self._speed
                    if (wait := due - self.elapsed()) > 0:
                        await asyncio.sleep(wait)
                    self._keep(Record(kind=Kind.EVENT, at=due, seconds=self.elapsed() - due))
                    await self._happens(event)
                    if event.at - told >= 60:
                        told = event.at
                        self._tell(f"minute {event.at / 60:.0f}: {len(self._visitors)} clients")
                rest = self._trace.seconds / self._speed - self.elapsed()
                await asyncio.sleep(max(0.0, rest))
                for key in list(self._visitors):
                    self._leaves(*key)
                for session in list(self._sessions):
                    self._delete_session(session)
        finally:
            for visitor, task, _ in self._visitors.values():
                task.cancel()
                await visitor.leave()

    async def _happens(self, event: Event) -> None:
        """Begins it; nothing here waits for an answer."""
        match event.do:
            case Do.CREATE_SESSION:
                making = self._everywhere(lambda case: case.create_session(event.session))
                self._sessions[event.session] = self._tasks.create_task(making)
            case Do.DELETE_SESSION:
                for key in [key for key in self._visitors if key[0] == event.session]:
                    self._leaves(*key)
                self._delete_session(event.session)
            case Do.CREATE_CLIENT:
                self._comes(event.session, event.client)
            case Do.DELETE_CLIENT:
                self._leaves(event.session, event.client)
            case Do.DELETE_POD:
                self._tasks.create_task(self._delete_pod())

    def _comes(self, session: str, name: str) -> None:
        place = self._places[self._choosing.next()]
        connection = place.workload.connection(name)
        visitor = Visitor(place.case, connection, session, name, self.elapsed)
        there = self._sessions[session]

        async def live() -> None:
            await asyncio.shield(there)
            await visitor.live(self._keep)

        task = self._tasks.create_task(_unless_cancelled(live()))
        self._visitors[session, name] = visitor, task, place

    def _leaves(self, session: str, name: str) -> None:
        visitor, task, place = self._visitors.pop((session, name))
        there = self._sessions[session]

        async def leave() -> None:
            await asyncio.wait([task])
            await asyncio.shield(there)
            await visitor.leave()
            await insist(lambda: place.case.leave(session, name))

        task.cancel()
        leaving = self._tasks.create_task(leave())
        # A session is deleted after those have left who were in it.
        self._sessions[session] = self._tasks.create_task(_all_tasks(there, leaving))

    def _delete_session(self, session: str) -> None:
        there = self._sessions.pop(session)

        async def delete() -> None:
            await asyncio.wait([there])
            await self._everywhere(lambda case: case.delete_session(session))

        self._tasks.create_task(delete())

    async def _delete_pod(self) -> None:
        """Of a client that has one, by chance, and the same one in every run that has it too."""
        held = sorted((key for key, (visitor, _, _) in self._visitors.items() if visitor.pod))
        chance = self._chance.random()
        if not held:
            self._keep(Record(kind=Kind.NO_POD, at=self.elapsed()))
            return
        visitor, _, place = self._visitors[held[int(chance * len(held))]]
        pod = visitor.pod

        async def delete() -> None:
            with contextlib.suppress(NotFound):
                await place.client.delete(Pod, pod, NAMESPACE, grace_seconds=0)

        visitor.doom(pod)
        await insist(delete)
        visitor.lose(pod)

    async def _everywhere(self, do: Callable[[Case], Awaitable[None]]) -> None:
        await asyncio.gather(*(insist(partial(do, place.case)) for place in self._places))


async def _all_tasks(*tasks: asyncio.Task[None]) -> None:
    await asyncio.gather(*tasks)


async def _unless_cancelled(coroutine: object) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await coroutine  # type: ignore[misc]
