"""One trace put to one case: real clients that come, hold their pods, lose them and leave."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial

import aiohttp
import msgspec

from edgewise.bench.evaluation.cases.case import Case
from edgewise.bench.evaluation.records import Kind, Record
from edgewise.bench.evaluation.trace import Do, Event, Trace
from edgewise.bench.evaluation.workload import HOLD_SECONDS, NAMESPACE
from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError, NotFound, ServerError, TooManyRequests, Unreachable
from edgewise.kube.kinds.core import Pod
from edgewise.runtime.awaiting import WaitedInVain

TRY_SECONDS = 2.0  # one try: a pod that is going away may take a connection and never answer
# A client that was not let in for so long counts as failed.
PATIENCE_SECONDS = 400.0

Keep = Callable[[Record], None]
Ask = Callable[[str, str], Awaitable[None]]  # a session, a client
INSIST_SECONDS = 60.0


async def insist(call: Callable[[], Awaitable[None]]) -> None:
    """Once more where no answer came or the server is too busy: all of it may be repeated."""
    pause, end = 0.1, time.monotonic() + INSIST_SECONDS
    while True:
        try:
            return await call()
        except (Unreachable, TooManyRequests, ServerError):
            if time.monotonic() > end:
                raise
        await asyncio.sleep(pause)
        pause *= 2


class Visitor:
    """A client: it connects, holds its pod by asking, and connects again when the pod is lost."""

    def __init__(self, case: Case, session: str, name: str, elapsed: Callable[[], float]) -> None:
        self.session = session
        self.name = name
        self.pod = ""  # which it holds now
        self._case = case
        self._elapsed = elapsed
        self._http: aiohttp.ClientSession | None = None
        self._url = ""
        self._lost: asyncio.Future[float] | None = None

    async def live(self, keep: Keep) -> None:
        """Until it is cancelled, because the client leaves."""
        began = time.perf_counter()
        try:
            await self._connected(Kind.CONNECT, began, keep, self._case.join)
            while True:
                lost_at = await self._hold()
                lost, self.pod = self.pod, ""
                await self._connected(Kind.RECOVER, lost_at, keep, self._case.lost, not_from=lost)
        finally:
            await self._close()

    def lose(self) -> None:
        """Its pod was deleted just now: as a broken connection tells a client, at once."""
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(time.perf_counter())

    async def goodbye(self) -> None:
        """Tell the pod, where there is one: whoever has it next need not wait for silence."""
        if self.pod and self._url:
            async with self._new_http() as http:
                with contextlib.suppress(OSError, aiohttp.ClientError, TimeoutError):
                    await self._ask(http, self._url, "leave")

    async def _connected(
        self, kind: Kind, began: float, keep: Keep, ask: Ask, not_from: str = ""
    ) -> None:
        self._lost = asyncio.get_running_loop().create_future()
        at, tries = self._elapsed(), 0
        why = ""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await insist(lambda: ask(self.session, self.name))
                async for url in self._case.urls(self.session, self.name):
                    tries += 1
                    if await self._try(url, not_from):
                        break
        except (TimeoutError, WaitedInVain, KubeError) as error:
            why = str(error) or f"not let in within {PATIENCE_SECONDS:.0f} s"
        except asyncio.CancelledError:
            keep(self._record(Kind.LEFT_WAITING, at, began, tries))
            raise
        if why:
            keep(msgspec.structs.replace(self._record(kind, at, began, tries), failed=why))
            await asyncio.Event().wait()  # it stays away until the trace says that it leaves
        keep(self._record(kind, at, began, tries))

    def _record(self, kind: Kind, at: float, began: float, tries: int) -> Record:
        return Record(
            kind=kind,
            at=at,
            seconds=time.perf_counter() - began,
            session=self.session,
            client=self.name,
            tries=tries,
        )

    async def _try(self, url: str, not_from: str) -> bool:
        """By a connection of its own, which is kept if it leads to a pod that takes the client."""
        http = self._new_http()
        try:
            who = await self._ask(http, url, "hold")
            if who and who != not_from:
                await self._close()
                self._http, self._url, self.pod = http, url, who
                return True
        except (OSError, aiohttp.ClientError, TimeoutError):
            pass
        finally:
            if self._http is not http:
                await http.close()
        return False

    async def _hold(self) -> float:
        """Ask again and again; when the pod was lost."""
        assert self._http is not None and self._lost is not None  # noqa: S101, PT018 - by order
        while True:
            try:
                return await asyncio.wait_for(asyncio.shield(self._lost), HOLD_SECONDS)
            except TimeoutError:
                pass
            try:
                who = await self._ask(self._http, self._url, "hold")
            except (OSError, aiohttp.ClientError, TimeoutError):
                who = ""
            if self._lost.done():
                return self._lost.result()
            if who != self.pod:
                return time.perf_counter()

    async def _ask(self, http: aiohttp.ClientSession, url: str, do: str) -> str:
        """The pod's name; nothing if it has another client."""
        asked = {"client": self.name, "do": do}
        async with http.get(url, params=asked, allow_redirects=False) as answer:
            body = await answer.content.read(256)
            return body.decode(errors="replace") if answer.status == 200 else ""

    def _new_http(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1),
            timeout=aiohttp.ClientTimeout(total=TRY_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def _close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.close()


class TraceRun:
    """Carries out the events at their times; what is slow delays nothing that comes after it."""

    def __init__(
        self,
        cases: list[tuple[Client, Case]],
        trace: Trace,
        *,
        speed: float,
        keep: Keep,
        tell: Callable[[str], None],
    ) -> None:
        """Each client belongs to one of the cases, in turn; a session is in all of them."""
        self._cases = cases
        self._trace = trace
        self._speed = speed
        self._keep = keep
        self._tell = tell
        self._chance = random.Random(f"pods/{trace.seed}")
        self._visitors: dict[tuple[str, str], tuple[Visitor, asyncio.Task[None], int]] = {}
        self._sessions: dict[str, asyncio.Task[None]] = {}
        self._turn = 0

    def elapsed(self) -> float:
        return time.perf_counter() - self._began

    async def prepare(self) -> None:
        """What a design has ready before the first client; the clock runs from here on."""
        for _, case in self._cases:
            await case.prepare(self._trace)
        self._began = time.perf_counter()

    async def run(self) -> None:
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
            for _, task, _ in self._visitors.values():
                task.cancel()

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
        place = self._turn % len(self._cases)
        self._turn += 1
        visitor = Visitor(self._cases[place][1], session, name, self.elapsed)
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
            await visitor.goodbye()
            await insist(lambda: self._cases[place][1].leave(session, name))

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
        client, pod = self._cases[place][0], visitor.pod

        async def delete() -> None:
            with contextlib.suppress(NotFound):
                await client.delete(Pod, pod, NAMESPACE, grace_seconds=0)

        await insist(delete)
        visitor.lose()

    async def _everywhere(self, do: Callable[[Case], Awaitable[None]]) -> None:
        await asyncio.gather(*(insist(partial(do, case)) for _, case in self._cases))


async def _all_tasks(*tasks: asyncio.Task[None]) -> None:
    await asyncio.gather(*tasks)


async def _unless_cancelled(coroutine: object) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await coroutine  # type: ignore[misc]
