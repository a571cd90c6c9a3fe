"""The floor of the design: the writes of each server by this program itself, without an operator.

The objects are those that the operator makes, and so are policies, budget and priority. What a
fleet needs beyond this is what the operator costs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from edgewise.api.games import MOST_RETIRED, Allocation, Fleet, FleetSpec, Server
from edgewise.bench.gameservers.bare_pods import NAMESPACE, BarePods, fleet_spec
from edgewise.bench.gameservers.fleet import down_figures, up_figures
from edgewise.bench.gameservers.phases import Costs, Phases, some_at_once, until
from edgewise.gameservers import names
from edgewise.gameservers.fleet.apply import batched, retiring, server_of
from edgewise.gameservers.fleet.plan import ServerSeen
from edgewise.gameservers.protection import budget
from edgewise.gameservers.server.manifest import pod_of
from edgewise.gameservers.server.observe import see_pod
from edgewise.gameservers.server.observed import Observed
from edgewise.gameservers.server.plan import plan_server
from edgewise.gameservers.server.settings import Settings
from edgewise.kube.client import Client, Patch
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.local.clusters import LocalCluster
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.merge_patch import difference

Tell = Callable[[str], None]

WRITES, REMOVAL_WRITES = 3, 3


class SketchBench:
    """`client` has the operator's name: nobody else may delete pods of servers."""

    def __init__(
        self,
        cluster: LocalCluster,
        client: Client,
        settings: Settings,
        servers: int,
        tell: Tell,
    ) -> None:
        self._phases = Phases(cluster)
        self._client = client
        self._settings = settings
        self._servers = servers
        self._tell = tell
        self._made: dict[str, Server] = {}

    async def run(self, runs: int) -> dict[str, Any]:
        await self._client.create(Namespace.named(NAMESPACE))
        await self._client.create(budget(NAMESPACE))
        up: list[Costs] = []
        down: list[Costs] = []
        bare: list[Costs] = []
        bare_down: list[Costs] = []
        async with self._watching() as pods:
            for number in range(runs):
                bare.append(await self._phases.measure(pods.up))
                bare_down.append(await self._phases.measure(pods.down))
                up.append(await self._phases.measure(self._up))
                down.append(await self._phases.measure(self._down))
                self._tell(
                    f"run {number + 1}: {up[-1].seconds:.1f} s, bare {bare[-1].seconds:.1f} s; "
                    f"down {down[-1].seconds:.1f} s, bare {bare_down[-1].seconds:.1f} s"
                )
        up = [_with(each, WRITES * self._servers) for each in up]
        down = [_with(each, REMOVAL_WRITES * self._servers) for each in down]
        figures = up_figures(self._servers, up, bare)
        return figures | down_figures(self._servers, down, bare_down)

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[BarePods]:
        caches = SharedCaches(self._client)
        pods = BarePods(self._client, caches, self._servers)
        protected = Selection(namespace=NAMESPACE, labels=names.PROTECTED)
        self._pods: Cache[Pod] = caches.of(Pod, protected)
        keeping = asyncio.create_task(caches.run())
        try:
            yield pods
        finally:
            keeping.cancel()
            await asyncio.wait((keeping,))

    async def _up(self) -> None:
        fleet = Fleet.named("arena", NAMESPACE, spec=_spec(self._servers))
        ready: asyncio.Queue[Pod] = asyncio.Queue()
        said: set[str] = set()

        def changed(_: Pod | None, new: Pod | None, __: bool) -> None:
            if new is not None and new.ready and new.metadata.name not in said:
                said.add(new.metadata.name)
                ready.put_nowait(new)

        async def create(number: int) -> None:
            wanted = server_of(fleet, number, "v1")
            # There is no such Fleet, so it is not named as an owner.
            wanted.metadata.owner_references = []
            made = await self._client.create(wanted)
            self._made[names.pod_of(made.metadata.name)] = made
            ports = {"play": self._settings.ports.first + number % 1000}
            await self._client.create(pod_of(made, self._settings, ports))

        async def report(_: int) -> None:
            pod = await ready.get()
            server = self._made[pod.metadata.name]
            plan = plan_server(Observed(server=server, pod=see_pod(pod, None)), time.time())
            patch = difference(msgspec.to_builtins(server.status), msgspec.to_builtins(plan.status))
            meta = server.metadata
            await self._client.patch(
                Server, meta.name, meta.namespace, body={"status": patch}, subresource="status"
            )

        end = self._pods.subscribe(changed)
        try:
            numbers = range(self._servers)
            await asyncio.gather(some_at_once(numbers, create), some_at_once(numbers, report))
        finally:
            end()

    async def _down(self) -> None:
        gone: asyncio.Queue[Server] = asyncio.Queue()

        def changed(old: Pod | None, new: Pod | None, _: bool) -> None:
            if old is not None and new is None:
                gone.put_nowait(self._made.pop(old.metadata.name))

        servers = list(self._made.values())

        async def remove(number: int) -> None:
            name = servers[number].metadata.name
            await self._client.delete(Server, name, NAMESPACE)
            await self._client.delete(Pod, names.pod_of(name), NAMESPACE)

        async def finish(_: int) -> None:
            name = (await gone.get()).metadata.name
            body = [{"op": "add", "path": "/metadata/finalizers", "value": []}]
            await self._client.patch(Server, name, NAMESPACE, body=body, type=Patch.JSON)

        end = self._pods.subscribe(changed)
        try:
            seen = [ServerSeen(name=each.metadata.name, uid=each.metadata.uid) for each in servers]
            lists = [retiring("arena", "", each, NAMESPACE) for each in batched(seen, MOST_RETIRED)]
            for each in lists:
                await self._client.create(each)
            numbers = range(len(servers))
            await asyncio.gather(some_at_once(numbers, remove), some_at_once(numbers, finish))
            await until(lambda: not len(self._pods), (self._pods,))
            for each in lists:
                await self._client.delete(Allocation, each.metadata.name, NAMESPACE)
        finally:
            end()


def _spec(servers: int) -> FleetSpec:
    return msgspec.convert(fleet_spec(servers), FleetSpec)


def _with(costs: Costs, writes: float) -> Costs:
    return msgspec.structs.replace(costs, writes=writes)
