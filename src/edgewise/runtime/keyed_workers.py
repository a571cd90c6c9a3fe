"""A few workers that take names from a queue, one name never twice at the same time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from edgewise.kube.errors import KubeError
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.errors import ServiceError
from edgewise.runtime.queue import WorkQueue

# Clusters come back at any moment, and are to be repaired within seconds.
BACKOFF = Backoff(first=0.1, most=3.0)

_log = logging.getLogger(__name__)


class KeyedWorkers:
    """`work` answers in how many seconds it wants the name again, or None."""

    def __init__(
        self, name: str, work: Callable[[str], Awaitable[float | None]], count: int = 8
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue(backoff=BACKOFF)
        self._name = name
        self._work = work
        self._count = count

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._count):
                tasks.create_task(self._serve(), name=f"{self._name} {number}")

    async def _serve(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._do(key)
            finally:
                self.queue.done(key)
            # Most of the work finds nothing to do, and does not wait for anything either.
            await asyncio.sleep(0)

    async def _do(self, key: str) -> None:
        try:
            again = await self._work(key)
        except asyncio.CancelledError:
            self.queue.add(key)
            raise
        except (KubeError, ServiceError) as error:
            delay = self.queue.retry(key)
            _log.info("%s of %s waits %.1f s: %s", self._name, key, delay, error)
        except Exception:
            delay = self.queue.retry(key)
            _log.exception("%s of %s failed; again in %.1f s", self._name, key, delay)
        else:
            self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again)
