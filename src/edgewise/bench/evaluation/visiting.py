"""One client of a trace: it comes, holds its pod, loses it, comes back and leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from edgewise.bench.evaluation.cases.case import Case
from edgewise.bench.evaluation.cases.retrying import insist
from edgewise.bench.evaluation.records import Kind, Record
from edgewise.bench.evaluation.workloads.workload import HOLD_SECONDS, Connection
from edgewise.kube.errors import KubeError
from edgewise.runtime.awaiting import WaitedInVain

# A client that was not let in for so long counts as failed.
PATIENCE_SECONDS = 400.0

Keep = Callable[[Record], None]
Ask = Callable[[str, str], Awaitable[None]]  # a session, a client


class Visitor:
    """It connects, looks whether it still has its pod, and connects again when that is lost."""

    def __init__(
        self,
        case: Case,
        connection: Connection,
        session: str,
        name: str,
        elapsed: Callable[[], float],
    ) -> None:
        self.session = session
        self.name = name
        self.pod = ""  # which it holds now
        self._case = case
        self._connection = connection
        self._elapsed = elapsed
        self._deleted: set[str] = set()  # pods that are no answer any more
        self._lost: asyncio.Future[float] | None = None

    async def live(self, keep: Keep) -> None:
        """Until it is cancelled, because the client leaves."""
        began = time.perf_counter()
        await self._connected(Kind.CONNECT, began, keep, self._case.join)
        while True:
            lost_at = await self._hold()
            lost, self.pod = self.pod, ""
            if lost in self._deleted:
                await self._connected(Kind.RECOVER, lost_at, keep, self._case.lost)
            else:  # its pod is there, as far as anybody knows: it goes back to it
                await self._connected(Kind.RECONNECT, lost_at, keep, _nothing)

    def doom(self, pod: str) -> None:
        """It is about to be deleted: what it still answers counts no more."""
        self._deleted.add(pod)

    def lose(self, pod: str) -> None:
        """It was deleted just now: as a broken connection tells a client, at once. A client that
        noticed before is on its way already."""
        if pod == self.pod and self._lost is not None and not self._lost.done():
            self._lost.set_result(time.perf_counter())

    async def leave(self) -> None:
        """After its life; the next client of the pod need not wait for silence."""
        if self.pod:
            await self._connection.goodbye()
        await self._connection.close()

    async def _connected(self, kind: Kind, began: float, keep: Keep, ask: Ask) -> None:
        self._lost = asyncio.get_running_loop().create_future()
        at, tries, why = self._elapsed(), 0, ""
        seconds = 0.0
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await insist(lambda: ask(self.session, self.name))
                async for url in self._case.urls(self.session, self.name):
                    tries += 1
                    opened = await self._connection.open(url)
                    if opened is not None and opened.pod not in self._deleted:
                        self.pod, seconds = opened.pod, opened.at - began
                        break
        except (TimeoutError, WaitedInVain, KubeError) as error:
            why = str(error) or f"not let in within {PATIENCE_SECONDS:.0f} s"
        except asyncio.CancelledError:
            keep(self._record(Kind.LEFT_WAITING, at, time.perf_counter() - began, tries))
            raise
        record = self._record(kind, at, seconds or time.perf_counter() - began, tries)
        keep(msgspec.structs.replace(record, failed=why) if why else record)
        if why:
            await asyncio.Event().wait()  # it stays away until the trace says that it leaves

    def _record(self, kind: Kind, at: float, seconds: float, tries: int) -> Record:
        return Record(
            kind=kind, at=at, seconds=seconds, session=self.session, client=self.name, tries=tries
        )

    async def _hold(self) -> float:
        """Look again and again; when the pod was lost."""
        assert self._lost is not None  # noqa: S101 - it is connected
        while True:
            # Not `wait_for`: it forgets that the client leaves when its pod is lost that moment.
            await asyncio.wait([self._lost], timeout=HOLD_SECONDS)
            if self._lost.done():
                return self._lost.result()
            pod = await self._connection.holds()
            if self._lost.done():
                return self._lost.result()
            if pod != self.pod:
                return time.perf_counter()


async def _nothing(_session: str, _client: str) -> None:
    """There is nobody to ask."""
