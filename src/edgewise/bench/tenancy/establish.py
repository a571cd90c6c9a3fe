"""Tenants at once, beside the same objects in the same number from a plain client."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from statistics import median
from typing import Any

from edgewise.bench.summary import ratio, summary
from edgewise.bench.tenancy.bare import OWNER, bare_tenant
from edgewise.bench.tenancy.stage import Stage, timed_together
from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError
from edgewise.kube.kinds.core import Pod, ServiceAccount
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches

_POD = {"containers": [{"name": "main", "image": "none"}]}
_LOOK_EVERY = 0.05
_USABLE_WITHIN = 300.0


async def tenants_together(stage: Stage, count: int, rounds: int) -> dict[str, Any]:
    pairs: list[tuple[float, float]] = []
    singles: list[float] = []
    bare_singles: list[float] = []
    writes = 0.0
    for number in range(rounds):
        before = await stage.writes()
        all_s, each = await timed_together(count, stage.tenant)
        await stage.at_rest()
        writes += await stage.writes() - before
        bare_all, bare_each = await timed_together(
            count, lambda name: bare_tenant(stage.client, name)
        )
        pairs.append((all_s, bare_all))
        singles += each
        bare_singles += bare_each
        stage.say(f"{count} tenants, round {number + 1}: {all_s:.3f} s, bare {bare_all:.3f} s")
    ours, bare = summary(singles), summary(bare_singles)
    return {
        "establish_s": ours,
        "bare_s": bare,
        "ratio_p50": ratio(ours.get("p50"), bare.get("p50")),
        "all_s": round(median(each[0] for each in pairs), 3),
        "bare_all_s": round(median(each[1] for each in pairs), 3),
        "ratio": round(median(each[0] / each[1] for each in pairs), 2),
        "writes_per_tenant": round(writes / (count * rounds), 2),
        "usable_s": await _usable(stage, count),
    }


async def _usable(stage: Stage, count: int) -> dict[str, float]:
    """From the Tenant to the first pod that its owner is let in with. The pod is a rehearsal: the
    API server decides on it as on any other, and keeps none."""
    async with stage.as_user(OWNER.name) as owner, Accounts(stage.client).watched() as accounts:

        async def one(name: str) -> None:
            there = accounts.wait(name)
            await stage.tenant(name)
            # Asking again and again would take from Kubernetes the time to make it.
            await asyncio.wait_for(there, _USABLE_WITHIN)
            await _until_admitted(owner, name)

        _, took = await timed_together(count, one)
    return summary(took)


class Accounts:
    """Tells when the account for pods is there, which the controller manager makes."""

    def __init__(self, client: Client) -> None:
        self._caches = SharedCaches(client)
        self._waiting: dict[str, asyncio.Future[None]] = {}
        made = self._caches.of(ServiceAccount, Selection(fields="metadata.name=default"))
        made.subscribe(self._changed)

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[Accounts]:
        keeping = asyncio.create_task(self._caches.run())
        try:
            await self._caches.wait_synced()
            yield self
        finally:
            keeping.cancel()
            await asyncio.wait((keeping,))

    def _changed(self, _: ServiceAccount | None, new: ServiceAccount | None, __: bool) -> None:
        if new is not None:
            waiting = self._waiting.pop(new.metadata.namespace, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    def wait(self, namespace: str) -> asyncio.Future[None]:
        found: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[namespace] = found
        return found


async def _until_admitted(owner: Client, namespace: str) -> None:
    deadline = time.monotonic() + _USABLE_WITHIN
    while True:
        try:
            await owner.create(Pod.named("first", namespace, spec=_POD), dry_run=True)
            return
        except ApiError:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_LOOK_EVERY)
