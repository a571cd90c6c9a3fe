"""The floor: a plain pod for each client by a plain call, and nothing between client and pod.

Nothing on Kubernetes that starts a pod for each client can be faster.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from edgewise.bench.evaluation.cases.case import Case, Stage
from edgewise.bench.evaluation.cases.retrying import RETRY_SECONDS, pauses
from edgewise.bench.evaluation.workloads.workload import NAMESPACE
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Key
from edgewise.runtime.awaiting import Waiting


class BareCase(Case):
    def __init__(self, stage: Stage, pods: Waiting[Pod]) -> None:
        self._stage = stage
        self._pods = pods
        self._of: dict[str, str] = {}  # client → its pod
        self._made = 0

    async def join(self, session: str, client: str) -> None:
        self._made += 1
        name = f"{client}-{self._made}"
        self._of[client] = name
        spec = self._stage.workload.pod_spec()
        await self._stage.client.create(Pod.named(name, NAMESPACE, spec=spec))

    async def urls(self, session: str, client: str) -> AsyncIterator[str]:
        key = Key(NAMESPACE, self._of[client])
        seen = await self._pods.until(
            key, lambda pod: pod is not None and pod.ready, f"{key} ready", self._stage.within
        )
        async for _ in pauses(RETRY_SECONDS, self._stage.within):
            if seen is not None:
                yield f"http://{seen.status.pod_ip}:{self._stage.workload.port}/"

    async def lost(self, session: str, client: str) -> None:
        await self.join(session, client)

    async def leave(self, session: str, client: str) -> None:
        name = self._of.pop(client, None)
        if name is None:
            return
        try:
            await self._stage.client.delete(Pod, name, NAMESPACE)
        except NotFound:
            return
