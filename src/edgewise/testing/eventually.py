"""Waiting for something to become true, with a deadline."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def eventually(
    condition: Callable[[], object | Awaitable[object]],
    *,
    within: float = 30.0,
    every: float | None = None,
    not_yet: tuple[type[Exception], ...] = (),
) -> None:
    """Return when `condition` holds. Assertions that fail, and `not_yet`, count as "not yet".

    The deadline is generous: tests run beside others on a machine that is busy, and a condition
    that holds ends the wait. Then the condition's own failure is raised, which tells what is
    missing. The longer
    it takes, the less often it is looked: many conditions ask an API server that has work to do.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    deadline = begun + within
    excused: tuple[type[Exception], ...] = (AssertionError, *not_yet)
    while True:
        last = loop.time() >= deadline
        try:
            result = condition()
            if inspect.isawaitable(result):
                result = await result
            # A condition made of assertions answers None when they all hold.
            if result or result is None:
                return
        except excused:
            if last:
                raise
        if last:
            name = getattr(condition, "__name__", "the condition")
            raise AssertionError(f"{name} did not hold within {within} s")
        await asyncio.sleep(every or min(0.01 + (loop.time() - begun) / 20, 0.1))
