"""etcd is restored from a backup: the caches must follow into the past."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.kinds.core import ConfigMap, Namespace
from edgewise.local.engine.finding import find_engine
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.testing.eventually import eventually
from tests.integration.conftest import ApiServer


async def test_a_cache_follows_an_api_server_that_was_set_back(tmp_path: Path) -> None:
    server = ApiServer(find_engine(), tmp_path)
    etcd, backup = tmp_path / "etcd", tmp_path / "backup"
    try:
        server.start()
        async with Client(load_access(server.kubeconfig)) as client:
            await client.create(Namespace.named("shop"))
            await client.create(ConfigMap.named("old", "shop"))
            await asyncio.to_thread(server.stop)
            shutil.copytree(etcd, backup)
            await asyncio.to_thread(server.start)

            caches = SharedCaches(client, idle_timeout=5.0)
            cache = caches.of(ConfigMap, Selection(namespace="shop"))
            following = asyncio.create_task(caches.run())
            await caches.wait_synced()
            for number in range(100):  # what the backup does not know
                await client.create(ConfigMap.named(f"lost-{number}", "shop"))
            await eventually(lambda: len(cache) == 101)

            known = cache.revision
            await asyncio.to_thread(server.stop)
            shutil.rmtree(etcd)
            shutil.copytree(backup, etcd)
            await asyncio.to_thread(server.start)
            new = await client.create(ConfigMap.named("new", "shop"))
            assert int(new.metadata.resource_version) < known
            await eventually(
                lambda: sorted(obj.metadata.name for obj in cache) == ["new", "old"], within=30
            )
            following.cancel()
            await asyncio.wait((following,))
    finally:
        server.stop()
