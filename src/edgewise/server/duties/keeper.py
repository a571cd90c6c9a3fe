"""Does all duties, every second, and serves the queue as soon as anything changes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from edgewise.kube.errors import KubeError
from edgewise.server.bindings import Bindings
from edgewise.server.duties.cluster_health import ClusterHealth
from edgewise.server.duties.lost_clients import LostClients
from edgewise.server.duties.lost_clusters import LostClusters
from edgewise.server.duties.waiting_line import WaitingLine
from edgewise.server.errors import FleetError
from edgewise.server.fleet import Fleet
from edgewise.server.joining import Joining
from edgewise.server.presence import Presence

EVERY_SECONDS = 1.0
_log = logging.getLogger(__name__)


class Keeper:
    def __init__(
        self,
        fleet: Fleet,
        joining: Joining,
        bindings: Bindings,
        presence: Presence,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fleet = fleet
        self._monotonic = monotonic
        self._line = WaitingLine(fleet, joining, bindings, clock=clock)
        self._clusters = LostClusters(fleet, joining, bindings)
        self._clients = LostClients(fleet, joining, bindings, presence, clock=clock)
        self._health = ClusterHealth(fleet, clock=clock)

    async def run(self) -> None:
        last = float("-inf")
        with self._fleet.changes.subscribe(()) as changes:
            while True:
                changes.take()
                await self._do("queue", self._line.look)
                if self._monotonic() - last >= EVERY_SECONDS:
                    last = self._monotonic()
                    await self._do("lost clusters", self._clusters.look)
                    await self._do("lost clients", self._clients.look)
                    await self._do("health", self._health.look)
                try:
                    async with asyncio.timeout(EVERY_SECONDS):
                        await changes.wait()
                except TimeoutError:
                    continue

    async def _do(self, name: str, duty: Callable[[], Awaitable[None]]) -> None:
        if not self._fleet.hub.mirror.ready:
            return  # nothing can be decided, and nobody may be blamed for silence
        try:
            await duty()
        except (KubeError, FleetError) as error:
            _log.warning("%s: %s", name, error)
        except Exception:
            _log.exception("the duty %s failed", name)
