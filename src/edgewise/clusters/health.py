"""Each cluster's health, written into its object for people who look at it with kubectl."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from edgewise.api.clusters import Cluster
from edgewise.clusters.connections import Connections
from edgewise.clusters.registry import Registry
from edgewise.runtime.connected_cluster import Health


class ClusterHealth:
    def __init__(
        self,
        registry: Registry,
        connections: Connections,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._connections = connections
        self._clock = clock
        self._written: dict[str, Health] = {}

    async def look(self) -> None:
        for cluster in self._registry.clusters:
            name = cluster.metadata.name
            found = self._connections.get(name)
            health = found.link.health if found is not None else Health.CONNECTING
            if self._written.get(name) is not health and cluster.status.health != health:
                await self._write(cluster, health)
            self._written[name] = health
        there = {cluster.metadata.name for cluster in self._registry.clusters}
        for name in self._written.keys() - there:
            del self._written[name]

    async def _write(self, cluster: Cluster, health: Health) -> None:
        name = cluster.metadata.name
        trouble = self._connections.trouble(name)
        await self._registry.client.patch(
            Cluster,
            name,
            cluster.metadata.namespace,
            subresource="status",
            body={
                "status": {
                    "health": health,
                    "message": f"{name} {trouble}"[:1024] if trouble else None,
                    "since": datetime.fromtimestamp(self._clock(), UTC),
                }
            },
        )
