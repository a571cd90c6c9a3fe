"""Memory and processor of the workload, by the kubelets' own figures, and of what serves it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from edgewise.bench.evaluation.cases.case import takes_pods
from edgewise.bench.evaluation.records import Kind, Record
from edgewise.bench.evaluation.workloads.workload import NAMESPACE
from edgewise.bench.process_cost import children, cpu_seconds, rss_mb, tree
from edgewise.kube.client import Client
from edgewise.kube.errors import UNREADABLE_JSON, KubeError
from edgewise.kube.kinds.core import Node
from edgewise.kube.paths import object_path

SAMPLE_SECONDS = 5.0
MB = 1_000_000
MOST_BYTES = 8 * 1024 * 1024


class Use:
    """`parts` are processes of this machine that the case runs beside the cluster, by name."""

    def __init__(
        self, clients: list[Client], parts: Mapping[str, int], elapsed: Callable[[], float]
    ) -> None:
        self._clients = clients
        self._parts = parts
        self._elapsed = elapsed
        self._nodes: list[tuple[Client, str]] = []
        self._before: dict[str, tuple[float, float]] = {}

    async def begin(self) -> None:
        """Find the kubelets that may have pods of the workload."""
        for client in self._clients:
            for node in (await client.list(Node)).items:
                if takes_pods(node) and any(
                    each.type == "Ready" and each.status == "True"
                    for each in node.status.conditions
                ):
                    self._nodes.append((client, node.metadata.name))

    async def keep(self, every: float, keep: Callable[[Record], None]) -> None:
        """Until cancelled. There is no sample where a kubelet did not answer: what is missing of
        a sum would be taken for what was saved."""
        due = time.monotonic()
        while True:
            if (sample := await self._sample()) is not None:
                keep(sample)
            due = max(due + every, time.monotonic())
            await asyncio.sleep(due - time.monotonic())

    async def _sample(self) -> Record | None:
        seen = await asyncio.gather(*(_summary(*node) for node in self._nodes))
        pods: list[dict[str, Any]] = []
        for summary in seen:
            if summary is None:
                return None
            pods += summary
        # All of /proc is read for it, which must not hold up the clients.
        parts = await asyncio.to_thread(self._all_parts)
        return Record(
            kind=Kind.USE,
            at=self._elapsed(),
            pods=len(pods),
            pods_mb=sum(_figure(pod, "memory", "workingSetBytes") for pod in pods) / MB,
            pods_cpu=sum(_figure(pod, "cpu", "usageNanoCores") for pod in pods) / 1e9,
            parts=parts,
        )

    def _all_parts(self) -> dict[str, tuple[float, float]]:
        started = children() if self._parts else {}
        return {name: self._part(name, tree(pid, started)) for name, pid in self._parts.items()}

    def _part(self, name: str, pids: Sequence[int]) -> tuple[float, float]:
        """Of a program with what it started: Envoy is the gateway's child."""
        now = time.monotonic()
        try:
            used, memory = sum(map(cpu_seconds, pids)), sum(map(rss_mb, pids))
        except (OSError, IndexError):
            return 0.0, 0.0  # it has ended: what is left of the run will say why
        before = self._before.get(name, (now, used))
        self._before[name] = now, used
        return round(memory, 1), round((used - before[1]) / max(now - before[0], 0.001), 4)


async def _summary(client: Client, node: str) -> list[dict[str, Any]] | None:
    """Of the pods that are measured; nothing if the kubelet did not answer."""
    path = object_path(Node.KIND, "", node, "proxy") + "/stats/summary"
    try:
        data = await client.request("GET", path, timeout=10, largest=MOST_BYTES)
        found = msgspec.json.decode(data, type=dict[str, Any])
    except (KubeError, *UNREADABLE_JSON):
        return None
    return [
        pod
        for pod in found.get("pods") or []
        if pod.get("podRef", {}).get("namespace") == NAMESPACE
    ]


def _figure(pod: dict[str, Any], part: str, name: str) -> float:
    return float((pod.get(part) or {}).get(name) or 0)
