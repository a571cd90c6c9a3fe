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
    """Another pod each time, unless it says which."""

    def __init__(self, *pods: str) -> None:
        self.opened = 0
        self.broken = False
        self._pods = pods

    async def open(self, url: str) -> Opened | None:
        await asyncio.sleep(0)
        self.opened += 1
        self.broken = False
        return Opened(self._pod(), time.perf_counter())

    async def holds(self) -> str:
        return "" if self.broken else self._pod()

    def _pod(self) -> str:
        if self.opened <= len(self._pods):
            return self._pods[self.opened - 1]
        return f"pod-{self.opened}"

    async def goodbye(self) -> None:
        """Nobody hears it."""

    async def close(self) -> None:
        """Nothing is open."""


async def connected(pods: Pods | None = None) -> tuple[Visitor, asyncio.Task[None], list[Record]]:
    kept: list[Record] = []
    there = asyncio.Event()

    def keep(record: Record) -> None:
        kept.append(record)
        there.set()

    visitor = Visitor(Anywhere(), pods or Pods(), "s1", "c1", lambda: 0.0)
    task = asyncio.create_task(visitor.live(keep))
    await there.wait()
    await asyncio.sleep(0)  # it holds its pod from now on
    return visitor, task, kept


async def until_there_are(number: int, kept: list[Record]) -> None:
    async with asyncio.timeout(10):
        while len(kept) < number:  # noqa: ASYNC110 - what is waited for is in a list
            await asyncio.sleep(0.01)


async def test_a_client_whose_pod_is_lost_comes_back() -> None:
    visitor, task, kept = await connected()
    visitor.doom("pod-1")
    visitor.lose("pod-1")
    await until_there_are(2, kept)
    assert [each.kind for each in kept] == [Kind.CONNECT, Kind.RECOVER]
    assert visitor.pod == "pod-2"
    task.cancel()
    await asyncio.wait([task])


async def test_what_a_deleted_pod_still_answers_is_no_recovery() -> None:
    visitor, task, kept = await connected(Pods("old", "old", "old", "new"))
    visitor.doom("old")
    visitor.lose("old")
    await until_there_are(2, kept)
    assert (visitor.pod, kept[1].kind, kept[1].tries) == ("new", Kind.RECOVER, 3)
    task.cancel()
    await asyncio.wait([task])


async def test_a_client_whose_connection_breaks_goes_back_to_its_pod() -> None:
    """Nobody deleted it, so the same pod is as good as another, and it is no recovery."""
    pods = Pods("one", "one")
    visitor, task, kept = await connected(pods)
    pods.broken = True
    await until_there_are(2, kept)
    assert (visitor.pod, kept[1].kind, kept[1].tries) == ("one", Kind.RECONNECT, 1)
    task.cancel()
    await asyncio.wait([task])


async def test_a_client_that_noticed_before_it_was_told_recovers_once() -> None:
    pods = Pods("old", "new")
    visitor, task, kept = await connected(pods)
    visitor.doom("old")
    pods.broken = True
    await until_there_are(2, kept)
    visitor.lose("old")
    await asyncio.sleep(0.05)
    assert [each.kind for each in kept] == [Kind.CONNECT, Kind.RECOVER]
    assert visitor.pod == "new"
    task.cancel()
    await asyncio.wait([task])


async def test_a_client_that_leaves_while_its_pod_is_lost_leaves() -> None:
    for turns in range(4):
        visitor, task, _ = await connected()
        visitor.doom("pod-1")
        visitor.lose("pod-1")
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=5)
        assert done, f"it goes on for ever when it is told {turns} moments later"
