"""Work beside the controllers: begun once, and begun again when it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from random import random
from typing import Any

import msgspec

from edgewise.runtime.backoff import Backoff

BACKOFF = Backoff(first=0.5, most=60.0)
# One that ran for so long is not in trouble: its next failure counts as the first.
RECOVERED = 300.0

_log = logging.getLogger(__name__)


class Task(msgspec.Struct, frozen=True):
    """`run` works until it is cancelled or has nothing left to do; it may be called again."""

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]


async def keep(
    task: Task, *, backoff: Backoff = BACKOFF, chance: Callable[[], float] = random
) -> None:
    """Run a task to its end; after a failure again, later each time."""
    clock, failures = asyncio.get_running_loop().time, 0
    while True:
        began = clock()
        try:
            return await task.run()
        except Exception:
            failures = 1 if clock() - began >= RECOVERED else failures + 1
            delay = backoff.delay(failures, chance)
            _log.exception("the task %s failed; it begins again in %.1f s", task.name, delay)
        await asyncio.sleep(delay)


class Tasks:
    """Tasks that run together, from `start` to `stop`."""

    def __init__(self, tasks: tuple[Task, ...]) -> None:
        self._tasks = tasks
        self._running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._running = [
            asyncio.create_task(keep(each), name=f"task {each.name}") for each in self._tasks
        ]

    async def stop(self) -> None:
        """Returns when none of them runs any more."""
        running, self._running = self._running, []
        for each in running:
            each.cancel()
        if running:
            await asyncio.wait(running)
