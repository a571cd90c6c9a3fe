"""Which cluster a client goes to: the next in turn, or one of the nearest."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum

# Somebody answers there on every node; a connection that is refused takes as long as one that is
# taken.
PORT = 10250
MEASURE_SECONDS = 2.0
TRIES = 3
PATIENCE_SECONDS = 1.0
# So much nearer is no nearer: it is what a busy machine adds at one time and not at the next.
SLACK_SECONDS = 0.002


class Choose(StrEnum):
    TURN = "turn"
    LATENCY = "latency"


class Choosing:
    """In turn among all places, or among those that are as near as the nearest."""

    def __init__(self, addresses: Sequence[str], *, port: int = PORT) -> None:
        """`addresses` has one node of each place."""
        self._addresses = addresses
        self._port = port
        self._near = list(range(len(addresses)))
        self._turn = 0

    def next(self) -> int:
        """The number of a place."""
        self._turn += 1
        return self._near[(self._turn - 1) % len(self._near)]

    @contextlib.asynccontextmanager
    async def measuring(self) -> AsyncIterator[None]:
        """Once before the block, then again and again: what is near may change."""
        await self._measure()
        task = asyncio.create_task(self._again())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _again(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_SECONDS)
            await self._measure()

    async def _measure(self) -> None:
        away = await asyncio.gather(*(seconds_to(each, self._port) for each in self._addresses))
        self._near = nearest(away)


def nearest(away: Sequence[float]) -> list[int]:
    """All of them where nobody could be measured."""
    least = min(away)
    return [number for number, each in enumerate(away) if each <= least + SLACK_SECONDS]


async def seconds_to(address: str, port: int) -> float:
    """How long a connection takes, the best of a few; without end where nothing answers."""
    return min([await _once(address, port) for _ in range(TRIES)])


async def _once(address: str, port: int) -> float:
    began = time.perf_counter()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            _, writer = await asyncio.open_connection(address, port)
    except ConnectionRefusedError:
        return time.perf_counter() - began
    except (OSError, TimeoutError):
        return math.inf
    found = time.perf_counter() - began
    writer.close()
    return found
