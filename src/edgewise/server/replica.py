"""One replica of the server, without its HTTP: the hub, the clusters, and what the halves do."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar, cast

import msgspec
from prometheus_client import CollectorRegistry

from edgewise.clusters.connections import Connections
from edgewise.clusters.health import ClusterHealth
from edgewise.clusters.registry import Registry
from edgewise.kube.bounds import MIB
from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError, ServerError, Unreachable
from edgewise.kube.objects import Object
from edgewise.runtime.connected_cluster import ConnectedCluster, Patience
from edgewise.runtime.leading.leadership import Leadership, Timing
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.tasks import Task, keep
from edgewise.server.hub_half import Halves, HubContext, HubHalf, check_unique
from edgewise.server.identity.hub_credentials import HubCredentials

LEASE_NAME = "edgewise-server"
START_PAUSE_SECONDS = 2.0
HEALTH_SECONDS = 1.0
# A cluster that is back shall be repaired within seconds, even if the leader died with it.
TIMING = Timing(lease=6, stop_after=4.0, renew_every=1.0, poll_every=0.5)
# Of a kind of a member's objects that no half has set a bound for.
SPARE_BYTES = 4 * MIB

_log = logging.getLogger(__name__)

Part = TypeVar("Part")


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
        halves: Halves,
        *,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_unique("the half", (half.name for half in halves))
        self.settings = settings
        self.halves = halves
        self.clock = clock
        metrics = metrics or Metrics()
        self.link = ConnectedCluster(
            "the hub", client, patience=settings.patience, metrics=metrics, label="hub"
        )
        self.registry = Registry(self.link, settings.namespace)
        self.credentials = HubCredentials(client, settings.namespace, self.registry.secrets)
        self.connections = Connections(
            self.registry,
            patience=settings.patience,
            metrics=metrics,
            heaviest=self._heaviest,
        )
        self.leadership = Leadership(
            client, LEASE_NAME, settings.namespace, timing=settings.timing, clock=clock
        )
        metrics.leading.set_function(lambda: self.leading)
        self._health = ClusterHealth(self.registry, self.connections, clock=clock)
        context = HubContext(
            registry=self.registry,
            connections=self.connections,
            credentials=self.credentials,
            metrics=metrics,
            replica=settings.replica,
            clock=clock,
        )
        self._parts = {half.name: half.build(context) for half in halves}

    def of(self, half: HubHalf[Part]) -> Part:
        """What a half has built here."""
        return cast(Part, self._parts[half.name])

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ready when the hub was seen once; later it may come and go."""
        await self._prepare()
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(work, name=name)
                for name, work in (
                    ("hub", self.link.run()),
                    ("keys", self.credentials.keep_keys()),
                    ("tenants", self.credentials.look_at_tenants()),
                    ("clusters", self.connections.run()),
                    ("leader", self._lead()),
                    *(
                        (task.name, keep(task))
                        for half in self.halves
                        for task in half.tasks(self.of(half))
                    ),
                )
            ]
            try:
                await self.link.wait_ready()
                yield
            finally:
                for task in running:
                    task.cancel()

    def show_metrics(self, registry: CollectorRegistry) -> None:
        for half in self.halves:
            half.show_metrics(self.of(half), registry)

    def close(self) -> None:
        """End what would go on for ever, when no new requests are taken."""
        for half in self.halves:
            half.close(self.of(half))

    async def _prepare(self) -> None:
        while True:
            try:
                for half in self.halves:
                    await half.prepare(self.of(half))
                await self.credentials.prepare()
            except (Unreachable, ServerError) as error:
                _log.warning("the hub does not answer, trying again: %s", error)
                await asyncio.sleep(START_PAUSE_SECONDS)
            else:
                return

    def _heaviest(self, cluster: str, kind: type[Object]) -> int:
        bounds = [half.heaviest(self.of(half), cluster, kind) for half in self.halves]
        return max((bound for bound in bounds if bound is not None), default=SPARE_BYTES)

    @property
    def leading(self) -> bool:
        return self.leadership.leading

    async def _lead(self) -> None:
        await self.link.wait_ready()
        while True:
            await self.leadership.acquire()
            _log.info("this replica looks after the clusters")
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
                _log.error("looking after the clusters failed", exc_info=error)

    async def _look_after(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep(Task("health of clusters", self._write_health)))
            for half in self.halves:
                for duty in half.duties(self.of(half)):
                    tasks.create_task(keep(duty), name=duty.name)

    async def _write_health(self) -> None:
        while True:
            if self.link.ready:
                try:
                    await self._health.look()
                except KubeError as error:
                    _log.warning("health: %s", error)
            await asyncio.sleep(HEALTH_SECONDS)
