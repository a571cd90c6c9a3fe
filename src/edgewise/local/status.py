"""How a cluster is doing: its programs from the kernel, its nodes and pods from its API."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from pathlib import Path

import msgspec

from edgewise.kube.core import Node, Pod
from edgewise.kube.errors import KubeError
from edgewise.local import cgroups, processes, progress
from edgewise.local.cabling import WHOLE_CLUSTER, cuts
from edgewise.local.clusters import Cluster
from edgewise.local.component import CONTROL_PLANE
from edgewise.local.connecting import connect
from edgewise.local.connections import peers
from edgewise.local.control_plane import SIMULATED
from edgewise.local.faults import component_names, main_processes
from edgewise.local.layout import Home
from edgewise.local.readiness import usable

# A busy machine may be late with its first answer; who looks once has no second look.
PATIENCE = 10.0


class ComponentStatus(msgspec.Struct, frozen=True):
    name: str
    state: str  # running, paused or stopped
    pid: int | None
    seconds: float
    memory: int
    restarts: int


class NodeStatus(msgspec.Struct, frozen=True):
    name: str
    kind: str  # real or simulated
    ready: bool
    cut: bool
    pods: int
    memory: int | None


class ClusterStatus(msgspec.Struct, frozen=True):
    name: str
    region: str
    server: str
    # Why the API could not be asked; empty when it answered.
    trouble: str
    ready: bool
    memory: int
    components: list[ComponentStatus]
    nodes: list[NodeStatus]
    pods: dict[str, int]
    peers: list[str]
    cut: bool


async def observe(cluster: Cluster, patience: float = PATIENCE) -> ClusterStatus:
    components = component_statuses(cluster)
    nodes: list[Node] = []
    pods: list[Pod] = []
    trouble = ""
    try:
        async with (
            asyncio.timeout(patience),
            connect(cluster.kubeconfig, timeout=patience) as client,
        ):
            nodes = (await client.list(Node)).items
            pods = (await client.list(Pod)).items
    except TimeoutError:
        trouble = f"the API server does not answer within {patience:.0f} s"
    except (KubeError, OSError) as error:
        trouble = str(error)
    statuses = node_statuses(cluster, nodes, pods)
    return ClusterStatus(
        name=cluster.name,
        region=cluster.spec.region,
        server=cluster.server,
        trouble=trouble,
        ready=not trouble
        and all(component.state == "running" for component in components)
        and len(nodes) >= cluster.spec.nodes + cluster.spec.simulated_nodes
        and all(node.ready for node in statuses),
        memory=memory_of_cluster(cluster, components),
        components=components,
        nodes=statuses,
        pods=dict(Counter(pod.status.phase or "Pending" for pod in pods)),
        peers=[Home(Path(peer.home)).name for peer in peers(cluster.home)],
        cut=WHOLE_CLUSTER in cuts(cluster.home),
    )


def component_statuses(cluster: Cluster) -> list[ComponentStatus]:
    ends = Counter(
        event.what
        for event in progress.Reader(cluster.home.progress).new()
        if event.state == progress.ENDED
    )
    found = []
    running = main_processes(cluster)
    for name in component_names(cluster):
        process = running.get(name)
        found.append(
            ComponentStatus(
                name=name,
                state=_state(process.pid) if process else "stopped",
                pid=process.pid if process else None,
                seconds=_age(process.started) if process else 0.0,
                memory=processes.memory(process.pid) if process else 0,
                restarts=ends[name],
            )
        )
    return found


def node_statuses(cluster: Cluster, nodes: list[Node], pods: list[Pod]) -> list[NodeStatus]:
    placed = Counter(pod.spec.get("nodeName", "") for pod in pods)
    cut = cuts(cluster.home)
    found = []
    for node in nodes:
        name = node.metadata.name
        simulated = SIMULATED in node.metadata.labels
        found.append(
            NodeStatus(
                name=name,
                kind="simulated" if simulated else "real",
                ready=usable(node),
                cut=name in cut,
                pods=placed[name],
                memory=None if simulated else cgroups.memory_of(f"{cluster.home.cgroup}/{name}"),
            )
        )
    return found


def memory_of_cluster(cluster: Cluster, components: list[ComponentStatus]) -> int:
    """Everything that the cluster uses, its pods too."""
    if cluster.spec.real:
        groups = [CONTROL_PLANE, *cluster.spec.node_names]
        counted = [cgroups.memory_of(f"{cluster.home.cgroup}/{group}") for group in groups]
        if all(bytes_ is not None for bytes_ in counted):
            managers = [p for p in cluster.running() if p.component == "manager"]
            return sum(b or 0 for b in counted) + sum(processes.memory(p.pid) for p in managers)
    return sum(component.memory for component in components)


def _state(pid: int) -> str:
    if processes.paused(pid):
        return "paused"
    return "running" if processes.started(pid) is not None else "stopped"


def _age(started: int) -> float:
    """Seconds since a process began, from the kernel's count."""
    try:
        up = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return max(0.0, time.time() - started)
    return max(0.0, up - started / os.sysconf("SC_CLK_TCK"))
