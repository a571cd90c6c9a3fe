"""How a cluster is doing: its programs from the kernel, its nodes and pods from its API."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from pathlib import Path

import msgspec

from edgewise.kube.errors import KubeError
from edgewise.kube.kinds.core import Node, Pod
from edgewise.local import kept_platform, progress
from edgewise.local.clusters import LocalCluster
from edgewise.local.connecting import connect
from edgewise.local.control_plane.programs import SIMULATED
from edgewise.local.faults import component_names, main_processes
from edgewise.local.layout import Home
from edgewise.local.machines import cgroups, processes
from edgewise.local.machines.machines import top_group_of
from edgewise.local.machines.node_components import holders
from edgewise.local.manager import NAME as MANAGER
from edgewise.local.network import distances
from edgewise.local.network.cabling import WHOLE_CLUSTER, cuts
from edgewise.local.network.connections import peers
from edgewise.local.network.delay import Delay
from edgewise.local.network.policies.component import enforcers
from edgewise.local.readiness import usable

# A busy machine may be late with its first answer; who looks once has no second look.
PATIENCE = 10.0


class ComponentStatus(msgspec.Struct, frozen=True):
    name: str
    state: str  # running, not ready, paused or stopped
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


class PlaceStatus(msgspec.Struct, frozen=True):
    name: str
    address: str
    # Milliseconds one way and their deviation, by node, as they are at this moment.
    latency: dict[str, Delay]


class LocalClusterStatus(msgspec.Struct, frozen=True):
    name: str
    region: str
    server: str
    # Why the API could not be asked; empty when it answered.
    trouble: str
    ready: bool
    memory: int
    components: list[ComponentStatus]
    nodes: list[NodeStatus]
    places: list[PlaceStatus]
    pods: dict[str, int]
    peers: list[str]
    cut: bool


async def observe(cluster: LocalCluster, patience: float = PATIENCE) -> LocalClusterStatus:
    components = await platform_asked(cluster, component_statuses(cluster))
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
    return LocalClusterStatus(
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
        places=place_statuses(cluster),
        pods=dict(Counter(pod.status.phase or "Pending" for pod in pods)),
        peers=[Home(Path(peer.home)).name for peer in peers(cluster.home)],
        cut=WHOLE_CLUSTER in cuts(cluster.home),
    )


async def platform_asked(
    cluster: LocalCluster, components: list[ComponentStatus]
) -> list[ComponentStatus]:
    """Operator and gateway say themselves whether they are ready; a process alone tells little."""
    kept = kept_platform.wanted(cluster.home)
    if kept is None:
        return components
    # Every command of `edgewise local` imports this module, and few of them look at a platform.
    from edgewise.local.platform import not_ready  # noqa: PLC0415

    running = {part.name for part in components if part.state == "running"}
    silent = await not_ready(kept.site, running.intersection(kept.programs()))
    return [
        msgspec.structs.replace(part, state="not ready") if part.name in silent else part
        for part in components
    ]


def component_statuses(cluster: LocalCluster) -> list[ComponentStatus]:
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


def node_statuses(cluster: LocalCluster, nodes: list[Node], pods: list[Pod]) -> list[NodeStatus]:
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


def place_statuses(cluster: LocalCluster) -> list[PlaceStatus]:
    return [
        PlaceStatus(
            name=place,
            address=str(cluster.record.addresses.place(number)),
            latency=distances.current(cluster.home, place),
        )
        for number, place in enumerate(cluster.spec.places, start=1)
    ]


def memory_of_cluster(cluster: LocalCluster, components: list[ComponentStatus]) -> int:
    """Everything that the cluster uses, its pods too."""
    if cluster.spec.real:
        machines = [holder.name for holder in holders(cluster.record)]
        counted = [cgroups.memory_of(top_group_of(cluster.home, name)) for name in machines]
        if all(bytes_ is not None for bytes_ in counted):
            # The manager, what enforces policies and the platform, Envoy too, run on the host.
            beside = [
                *kept_platform.components(cluster.home),
                *enforcers(cluster.home, cluster.record),
            ]
            outside = {MANAGER, *(part.name for part in beside if not part.inside)}
            mine = [p for p in cluster.running() if p.component in outside]
            return sum(b or 0 for b in counted) + sum(processes.memory(p.pid) for p in mine)
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
