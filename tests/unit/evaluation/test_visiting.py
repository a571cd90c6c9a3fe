"""A client of a trace leaves when the trace says so, whatever else happens at that moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from edgewise.bench.evaluation.cases.case import Case
from edgewise.bench.evaluation.records import Kind, Record
from edgewise.bench.evaluation.visiting import Visitor
from edgewise.bench.evaluation.workloads.workload import Connection, Opened


class Anywhere(Case):
    async def urls(self, session: str, client: str) -> AsyncIterator[str]:
        while True:
            yield "http://nowhere/"


class Pods(Connection):
    """Another pod each time."""

    def __init__(self) -> None:
        self.opened = 0

    async def open(self, url: str) -> Opened | None:
        self.opened += 1
        return Opened(f"pod-{self.opened}", time.perf_counter())

    async def holds(self) -> str:
        return f"pod-{self.opened}"

    async def goodbye(self) -> None:
        """Nobody hears it."""

    async def close(self) -> None:
        """Nothing is open."""


async def connected() -> tuple[Visitor, asyncio.Task[None], list[Record]]:
    kept: list[Record] = []
    there = asyncio.Event()

    def keep(record: Record) -> None:
        kept.append(record)
        there.set()

    visitor = Visitor(Anywhere(), Pods(), "s1", "c1", lambda: 0.0)
    task = asyncio.create_task(visitor.live(keep))
    await there.wait()
    await asyncio.sleep(0)  # it holds its pod from now on
    return visitor, task, kept


async def test_a_client_whose_pod_is_lost_comes_back() -> None:
    visitor, task, kept = await connected()
    visitor.lose()
    async with asyncio.timeout(10):
        while len(kept) < 2:  # noqa: ASYNC110 - what is waited for is in a list
            await asyncio.sleep(0.01)
    assert [each.kind for each in kept] == [Kind.CONNECT, Kind.RECOVER]
    assert visitor.pod == "pod-2"
    task.cancel()
    await asyncio.wait([task])


async def test_a_client_that_leaves_while_its_pod_is_lost_leaves() -> None:
    for turns in range(4):
        visitor, task, _ = await connected()
        visitor.lose()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=5)
        assert done, f"it goes on for ever when it is told {turns} moments later"
