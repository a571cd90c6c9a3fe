"""Tenants at once, and children of one tenant, each beside its floor in the same run."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import aiohttp

from edgewise.api.tenancy import (
    Subject,
    SubNamespace,
    SubNamespaceSpec,
    Tenant,
    TenantSpec,
    Workspace,
)
from edgewise.bench.operator_metrics import read_metrics
from edgewise.bench.summary import ratio, summary
from edgewise.bench.tenancy.bare import bare_namespace, bare_record, bare_tenant
from edgewise.kube.client import Client
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.shared_caches import SharedCaches

ROUNDS = 5
PATIENCE = 600.0
_OWNER = Subject(kind="User", name="bench")


class Watcher:
    """Tells when an object says that it is established, to the moment."""

    def __init__(self, caches: SharedCaches) -> None:
        self._waiting: dict[str, asyncio.Future[float]] = {}
        for kind in (Tenant, SubNamespace):
            cache: Cache[Any] = caches.of(kind)
            cache.subscribe(self._changed)

    def _changed(self, _: Any, new: Any, __: bool) -> None:
        if new is not None and new.status.state == "Established":
            waiting = self._waiting.pop(str(new.key), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(time.monotonic())

    def wait(self, key: str) -> asyncio.Future[float]:
        found: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[key] = found
        return found


class TenancyBench:
    def __init__(self, client: Client, url: str, say: Callable[[str], None]) -> None:
        self._client = client
        self._url = url
        self._say = say
        self._caches = SharedCaches(client)
        self._watcher = Watcher(self._caches)

    async def run(self, tenants: list[int], tree: int) -> dict[str, Any]:
        keeping = asyncio.create_task(self._caches.run())
        try:
            await self._caches.wait_synced()
            await self._together(4)  # connections, caches and the like
            figures: dict[str, Any] = {
                "tenants": {str(count): await self._tenants(count) for count in tenants}
            }
            if tree:
                figures["tree"] = await self._tree(tree)
            return figures
        finally:
            keeping.cancel()
            await asyncio.wait((keeping,))

    # Tenants ------------------------------------------------------------------------

    async def _tenants(self, count: int) -> dict[str, Any]:
        rounds: list[tuple[float, float]] = []
        singles: list[float] = []
        bare_singles: list[float] = []
        writes = 0.0
        for number in range(ROUNDS):
            before = await self._writes()
            all_s, each = await self._together(count)
            await asyncio.sleep(0.2)
            writes += await self._writes() - before
            bare_all, bare_each = await self._timed_together(
                count, lambda name: bare_tenant(self._client, name)
            )
            rounds.append((all_s, bare_all))
            singles += each
            bare_singles += bare_each
            self._say(f"{count} tenants, round {number + 1}: {all_s:.3f} s, bare {bare_all:.3f} s")
        ours, bare = summary(singles), summary(bare_singles)
        return {
            "establish_s": ours,
            "bare_s": bare,
            "ratio_p50": ratio(ours.get("p50"), bare.get("p50")),
            "all_s": round(median(each[0] for each in rounds), 3),
            "bare_all_s": round(median(each[1] for each in rounds), 3),
            "ratio": round(median(each[0] / each[1] for each in rounds), 2),
            "writes_per_tenant": round(writes / (count * ROUNDS), 2),
        }

    async def _together(self, count: int) -> tuple[float, list[float]]:
        async def one(name: str) -> None:
            done = self._watcher.wait(name)
            await self._client.create(Tenant.named(name, spec=TenantSpec(owners=[_OWNER])))
            await asyncio.wait_for(done, PATIENCE)

        return await self._timed_together(count, one)

    async def _timed_together(
        self, count: int, make: Callable[[str], Awaitable[None]]
    ) -> tuple[float, list[float]]:
        async def timed(name: str) -> float:
            begun = time.monotonic()
            await make(name)
            return time.monotonic() - begun

        begun, prefix = time.monotonic(), f"b-{secrets.token_hex(3)}"
        took = await asyncio.gather(*(timed(f"{prefix}-{number}") for number in range(count)))
        return time.monotonic() - begun, list(took)

    async def _writes(self) -> float:
        async with aiohttp.ClientSession() as http:
            found = (await read_metrics(http, self._url)).writes
        ours = ("Tenant", "Namespace", "RoleBinding", "NetworkPolicy", "ResourceQuota")
        return sum(much for what, much in found.items() if what.split()[1] in ours)

    # Children -----------------------------------------------------------------------

    async def _tree(self, count: int) -> dict[str, Any]:
        """One after the other below a tree that grows to so many, and along one branch."""
        root = f"b-{secrets.token_hex(3)}"
        done = self._watcher.wait(root)
        await self._client.create(Tenant.named(root, spec=TenantSpec(owners=[_OWNER])))
        await asyncio.wait_for(done, PATIENCE)
        ours, bare = [], []
        for number in range(count):
            ours.append(await self._child(root, f"c{number}"))
            begun = time.monotonic()
            name = f"{root}-{number}"
            await bare_record(self._client, name)
            await bare_namespace(self._client, name)
            bare.append(time.monotonic() - begun)
        deep, above = [], root
        for level in range(8):
            deep.append(await self._child(above, f"d{level}"))
            found = await self._client.get(SubNamespace, f"d{level}", above)
            above = found.status.child
        children, floor = summary(ours), summary(bare)
        return {
            "children": count,
            "child_s": children,
            "bare_s": floor,
            "ratio": ratio(children.get("p50"), floor.get("p50")),
            "depth_ratio": round(deep[-1] / deep[0], 2),
        }

    async def _child(self, namespace: str, name: str) -> float:
        spec = SubNamespaceSpec(workspace=Workspace(owner=_OWNER))
        done = self._watcher.wait(f"{namespace}/{name}")
        begun = time.monotonic()
        await self._client.create(SubNamespace.named(name, namespace, spec=spec))
        return await asyncio.wait_for(done, PATIENCE) - begun
