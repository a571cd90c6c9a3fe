"""What every measurement of tenancy needs: clients, the operator's metrics, and to be told when
something is established."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import msgspec

from edgewise.api.tenancy import SubNamespace, Tenant, TenantSpec
from edgewise.bench.operator_metrics import OperatorMetrics, read_metrics
from edgewise.bench.tenancy.bare import OWNER
from edgewise.errors import ReadableError
from edgewise.kube.client import Client
from edgewise.local.clusters import LocalCluster
from edgewise.local.platform import Platform
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.shared_caches import SharedCaches

PATIENCE = 600.0
ESTABLISHED = "Established"
_COUNTED = (
    "Tenant",
    "SubNamespace",
    "TenantResourceQuota",
    "Namespace",
    "RoleBinding",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
)


class NotMeasured(ReadableError):
    """The bench cannot go on, with what happened."""


class Watcher:
    """Tells when an object says that it is established, to the moment."""

    def __init__(self, caches: SharedCaches) -> None:
        self._waiting: dict[str, asyncio.Future[float]] = {}
        for kind in (Tenant, SubNamespace):
            cache: Cache[Any] = caches.of(kind)
            cache.subscribe(self._changed)

    def _changed(self, _: Any, new: Any, __: bool) -> None:
        if new is None or not new.status.state:
            return
        waiting = self._waiting.pop(str(new.key), None)
        if waiting is None or waiting.done():
            return
        if new.status.state == ESTABLISHED:
            waiting.set_result(time.monotonic())
        else:
            waiting.set_exception(NotMeasured(f"{new.key} is {new.status.state}"))

    def wait(self, key: str) -> asyncio.Future[float]:
        found: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[key] = found
        return found


class Stage:
    """A cluster with an operator, and an administrator who measures."""

    def __init__(
        self,
        client: Client,
        cluster: LocalCluster,
        platform: Platform,
        say: Callable[[str], None],
    ) -> None:
        self.client = client
        self.say = say
        self.platform = platform
        self._cluster = cluster
        self._caches = SharedCaches(client)
        self._watcher = Watcher(self._caches)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        keeping = asyncio.create_task(self._caches.run())
        try:
            await self._caches.wait_synced()
            yield
        finally:
            keeping.cancel()
            await asyncio.wait((keeping,))

    async def tenant(self, name: str) -> None:
        """Made, and established."""
        done = self._watcher.wait(name)
        await self.client.create(Tenant.named(name, spec=TenantSpec(owners=[OWNER])))
        await asyncio.wait_for(done, PATIENCE)

    async def child(self, made: SubNamespace) -> None:
        done = self._watcher.wait(str(made.key))
        await self.client.create(made)
        await asyncio.wait_for(done, PATIENCE)

    @contextlib.asynccontextmanager
    async def as_user(self, name: str) -> AsyncIterator[Client]:
        """Somebody else, as far as the API server can tell."""
        told = (("Impersonate-User", name), ("Impersonate-Group", "system:authenticated"))
        access = msgspec.structs.replace(self.client.access, impersonation=told)
        async with Client(access) as client:
            yield client

    # The operator, and the others ---------------------------------------------------

    async def metrics(self) -> OperatorMetrics:
        async with aiohttp.ClientSession() as http:
            return await read_metrics(http, self.platform.operator_url)

    async def writes(self) -> float:
        found = (await self.metrics()).writes
        return sum(much for what, much in found.items() if what.split()[1] in _COUNTED)

    async def at_rest(self, within: float = 60.0) -> None:
        """Until the operator has nothing to do."""
        deadline = time.monotonic() + within
        while not (await self.metrics()).idle:
            if time.monotonic() > deadline:
                raise NotMeasured(f"the operator is at work after {within:.0f} s")
            await asyncio.sleep(0.1)

    def pid(self, component: str) -> int:
        for process in self._cluster.running():
            if process.component == component and process.alive:
                return process.pid
        raise NotMeasured(f"{component} does not run")


async def timed_together(
    count: int, make: Callable[[str], Awaitable[None]]
) -> tuple[float, list[float]]:
    """All at once, each with a name of its own; until the last is done, and how long each took."""

    async def timed(name: str) -> float:
        begun = time.monotonic()
        await make(name)
        return time.monotonic() - begun

    begun, prefix = time.monotonic(), new_name()
    took = await asyncio.gather(*(timed(f"{prefix}-{number}") for number in range(count)))
    return time.monotonic() - begun, list(took)


def new_name() -> str:
    return f"b-{secrets.token_hex(3)}"
