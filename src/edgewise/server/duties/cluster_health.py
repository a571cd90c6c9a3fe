"""Each cluster's health, written into its object for people who look at it with kubectl."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from edgewise.api.fleet import MemberCluster
from edgewise.server.fleet import Fleet
from edgewise.server.mirror import Health


class ClusterHealth:
    def __init__(self, fleet: Fleet, *, clock: Callable[[], float] = time.time) -> None:
        self._fleet = fleet
        self._clock = clock
        self._written: dict[str, Health] = {}

    async def look(self) -> None:
        for cluster in self._fleet.hub.clusters:
            name = cluster.metadata.name
            member = self._fleet.members.get(name)
            health = member.mirror.health if member is not None else Health.CONNECTING
            if self._written.get(name) is not health and cluster.status.health != health:
                await self._write(cluster, health)
            self._written[name] = health

    async def _write(self, cluster: MemberCluster, health: Health) -> None:
        name = cluster.metadata.name
        trouble = self._fleet.members.trouble(name)
        await self._fleet.hub.client.patch(
            MemberCluster,
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
