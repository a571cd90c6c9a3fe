"""One replica of the server, without its HTTP: caches, repair, and the duties of a leader."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable

import msgspec

from edgewise.kube.client import Client
from edgewise.kube.errors import ServerError, Unreachable
from edgewise.runtime.leadership import Leadership, Timing
from edgewise.server.bindings import Bindings
from edgewise.server.duties.keeper import Keeper
from edgewise.server.fleet import Fleet
from edgewise.server.hub import Hub
from edgewise.server.joining import Joining
from edgewise.server.lifecycle import Lifecycle
from edgewise.server.members import Members
from edgewise.server.mirror import Patience
from edgewise.server.presence import Presence
from edgewise.server.removals import Removals
from edgewise.server.repair import Repair
from edgewise.server.template_repair import TemplateRepair

LEASE_NAME = "edgewise-server"
START_PAUSE_SECONDS = 2.0
# A cluster that is back shall be repaired within seconds, even if the leader died with it.
TIMING = Timing(lease=6, stop_after=4.0, renew_every=1.0, poll_every=0.5)

_log = logging.getLogger(__name__)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str = "default"
    replica: str = ""
    patience: Patience = Patience()
    timing: Timing = TIMING


class Replica:
    """`async with Replica(...).running():` serves until the block ends."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.hub = Hub(client, settings.namespace, patience=settings.patience)
        self.members = Members(self.hub, patience=settings.patience)
        self.fleet = Fleet(self.hub, self.members, clock=clock)
        self.bindings = Bindings(self.hub, clock=clock)
        self.joining = Joining(self.fleet, self.bindings)
        self.lifecycle = Lifecycle(self.fleet)
        self.removals = Removals(self.hub, clock=clock)
        self.presence = Presence(self.hub, replica=settings.replica)
        self.leadership = Leadership(
            client, LEASE_NAME, settings.namespace, timing=settings.timing, clock=clock
        )
        self._repair = Repair(self.fleet, self.bindings)
        self._templates = TemplateRepair(self.fleet)
        self._keeper = Keeper(self.fleet, self.joining, self.bindings, self.presence, clock=clock)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ready when the hub was seen once; later it may come and go."""
        await self._prepare()
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(work, name=name)
                for name, work in (
                    ("hub", self.hub.mirror.run()),
                    ("keys", self.hub.keep_keys()),
                    ("members", self.members.run()),
                    ("presence", self.presence.run()),
                    ("leader", self._lead()),
                )
            ]
            try:
                await self.hub.mirror.wait_ready()
                yield
            finally:
                for task in running:
                    task.cancel()

    async def _prepare(self) -> None:
        while True:
            try:
                await self.hub.prepare()
            except (Unreachable, ServerError) as error:
                _log.warning("the hub does not answer, trying again: %s", error)
                await asyncio.sleep(START_PAUSE_SECONDS)
            else:
                return

    @property
    def leading(self) -> bool:
        return self.leadership.leading

    async def _lead(self) -> None:
        await self.hub.mirror.wait_ready()
        while True:
            await self.leadership.acquire()
            _log.info("this replica looks after the fleet")
            holding = asyncio.create_task(self.leadership.hold())
            working = asyncio.create_task(self._look_after())
            try:
                await asyncio.wait({holding, working}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (working, holding):
                    task.cancel()
                await asyncio.wait({working, holding})
                await self.leadership.release()
            if not working.cancelled() and (error := working.exception()) is not None:
                _log.error("looking after the fleet failed", exc_info=error)

    async def _look_after(self) -> None:
        self._repair.add_all()
        self._templates.add_all()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._repair.workers.run())
            tasks.create_task(self._templates.workers.run())
            tasks.create_task(self._keeper.run())
