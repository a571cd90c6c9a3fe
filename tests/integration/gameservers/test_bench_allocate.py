"""`edgewise bench allocate`, small: what it counts is what was done."""

from __future__ import annotations

import asyncio

from edgewise.api.games import Allocation, Server
from edgewise.bench.gameservers.allocate import AllocateBench, Amount
from edgewise.kube.client import Client
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from tests.integration.gameservers.allocating import Stage, stage


async def play_operator(rig: Stage) -> None:
    """The state of each server follows its Allocation."""
    caches = SharedCaches(rig.direct)
    here = Selection(namespace=rig.namespace)
    servers, allocations = caches.of(Server, here), caches.of(Allocation, here)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(caches.run())
        while True:
            for server in servers:
                state = "Allocated" if server.key in allocations else "Ready"
                if allocations.synced and server.status.state != state:
                    servers.write_through(await rig.say(server.metadata.name, state=state))
            await asyncio.sleep(0.02)


async def test_each_allocation_is_counted_with_its_writes(client: Client) -> None:
    async with stage(client) as rig:
        await asyncio.gather(rig.add_replica(), rig.add_replica())
        await rig.add_fleet()
        await rig.add_servers(20)
        token = await rig.add_token()
        operator = asyncio.create_task(play_operator(rig))
        said: list[str] = []
        bench = AllocateBench(
            rig.direct,
            Amount(servers=20, allocations=40, callers=5, rate=50),
            namespace=rig.namespace,
            game="chess",
            urls=[each.url for each in rig.replicas],
            token=token,
            tell=said.append,
        )
        try:
            figures = await bench.run()
        finally:
            operator.cancel()
            await asyncio.wait({operator})
        assert figures["allocations"] == 40
        assert (figures["duplicates"], figures["errors_5xx"]) == (0, 0)
        assert figures["per_s"] > 0
        assert figures["raw_patches_per_s"] > 0
        assert figures["p99_ms"] > 0
        # One creation and one status each, and a few more for those that were sent twice.
        assert 2 <= figures["writes_per_allocation"] < 4
        assert len(said) == 2
        assert await rig.allocations() == []
