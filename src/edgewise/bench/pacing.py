"""A steady rate, whatever the one who is asked makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def at_rate(rate: float, count: int, action: Callable[[int], Awaitable[None]]) -> None:
    """Begin `action(0)`, `action(1)`, … at their times, without waiting for each other.

    What comes late begins at once: a slow answer must not lower the load it is measured by.
    The first action that fails ends it all.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            wait = started + number / rate - loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
            tasks.create_task(_run(action, number))


async def _run(action: Callable[[int], Awaitable[None]], number: int) -> None:
    await action(number)
