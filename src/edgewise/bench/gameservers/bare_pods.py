"""The floor of a fleet: as many bare pods, made and deleted by this program."""

from __future__ import annotations

from typing import Any

from edgewise.bench.gameservers.phases import some_at_once, until
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Pod
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches

NAMESPACE = "fleets"
BARE = "edgewise-bench=bare"
IMAGE = "edgewise.local/simulated:1"


class BarePods:
    def __init__(self, client: Client, caches: SharedCaches, number: int) -> None:
        self._client = client
        self._number = number
        self._seen: Cache[Pod] = caches.of(Pod, Selection(namespace=NAMESPACE, labels=BARE))

    async def up(self) -> None:
        name, _, value = BARE.partition("=")

        async def create(number: int) -> None:
            pod = Pod.named(f"bare-{number}", NAMESPACE, spec={"containers": [container()]})
            pod.metadata.labels = {name: value}
            await self._client.create(pod)

        await some_at_once(range(self._number), create)
        await until(lambda: sum(pod.ready for pod in self._seen) >= self._number, (self._seen,))

    async def down(self) -> None:
        async def delete(number: int) -> None:
            await self._client.delete(Pod, f"bare-{number}", NAMESPACE)

        await some_at_once(range(self._number), delete)
        await until(lambda: not len(self._seen), (self._seen,))


def container() -> dict[str, Any]:
    return {"name": "game", "image": IMAGE, "resources": {"requests": {"cpu": "1m"}}}


def fleet_spec(servers: int) -> dict[str, Any]:
    return {
        "scaling": {"replicas": servers},
        "spec": {
            "pod": {"containers": [container()]},
            "ports": [{"name": "play", "containerPort": 7000}],
            "deletion": {"idle": "Allow"},
        },
    }
