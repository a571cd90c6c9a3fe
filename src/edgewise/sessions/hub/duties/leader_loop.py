"""Does all duties, every second, and serves the queue as soon as anything changes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from edgewise.kube.errors import KubeError
from edgewise.runtime.errors import ServiceError
from edgewise.sessions.hub.bindings import Bindings
from edgewise.sessions.hub.duties.disconnected_clients import DisconnectedClients
from edgewise.sessions.hub.duties.late_clients import LateClients
from edgewise.sessions.hub.duties.location_messages import LocationMessages
from edgewise.sessions.hub.duties.lost_clusters import LostClusters
from edgewise.sessions.hub.duties.waiting_line import WaitingLine
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.joining import Joining
from edgewise.sessions.hub.presence import Presence

EVERY_SECONDS = 1.0
_log = logging.getLogger(__name__)


class LeaderLoop:
    def __init__(
        self,
        hub_view: HubView,
        joining: Joining,
        bindings: Bindings,
        presence: Presence,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hub_view = hub_view
        self._monotonic = monotonic
        self._line = WaitingLine(hub_view, joining, bindings, clock=clock)
        self._clusters = LostClusters(hub_view, joining, bindings)
        self._late = LateClients(hub_view, joining, bindings, monotonic=monotonic)
        self._clients = DisconnectedClients(hub_view, joining, bindings, presence, clock=clock)
        self._messages = LocationMessages(hub_view.hub, hub_view.members)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_after())
            # Beside the others: it asks clusters that may be slow.
            tasks.create_task(self._see_to_late_clients())

    async def _see_to_late_clients(self) -> None:
        try:
            while True:
                await self._do("late clients", self._late.look)
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            await self._late.end()

    async def _look_after(self) -> None:
        last = float("-inf")
        with self._hub_view.changes.subscribe(()) as changes:
            while True:
                changes.take()
                await self._do("queue", self._line.look)
                if self._monotonic() - last >= EVERY_SECONDS:
                    last = self._monotonic()
                    await self._do("lost clusters", self._clusters.look)
                    await self._do("disconnected clients", self._clients.look)
                    await self._do("messages of locations", self._messages.look)
                try:
                    async with asyncio.timeout(EVERY_SECONDS):
                        await changes.wait()
                except TimeoutError:
                    continue

    async def _do(self, name: str, duty: Callable[[], Awaitable[None]]) -> None:
        if not self._hub_view.hub.link.ready:
            return  # nothing can be decided, and nobody may be blamed for silence
        try:
            await duty()
        except (KubeError, ServiceError) as error:
            _log.warning("%s: %s", name, error)
        except Exception:
            _log.exception("the duty %s failed", name)
