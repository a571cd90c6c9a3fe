"""Breaks a running cluster on purpose: ends, stops or restarts programs, cuts cables.

What is killed is started again by the cluster's manager; what is paused or cut
stays so until it is resumed or healed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from edgewise.local import kept_platform
from edgewise.local.clusters import LocalCluster
from edgewise.local.errors import LocalError
from edgewise.local.machines import cgroups, processes
from edgewise.local.machines.machines import top_group_of
from edgewise.local.machines.node_components import holders
from edgewise.local.machines.processes import Process
from edgewise.local.manager import NAME as MANAGER
from edgewise.local.manager import components, is_manager
from edgewise.local.network.cabling import WHOLE_CLUSTER, cable_up
from edgewise.local.network.latency import relays
from edgewise.local.network.policies.component import enforcers

_RESTART_SECONDS = 30.0
_PAUSE_SECONDS = 5.0


def component_names(cluster: LocalCluster) -> list[str]:
    """Everything that can be broken: programs, machines and the manager."""
    return [*_programs(cluster), MANAGER]


def _programs(cluster: LocalCluster) -> dict[str, str]:
    """The program by which each component is known among the processes of the cluster."""
    found = components(cluster.home, cluster.record)
    if cluster.spec.real:
        found += [*holders(cluster.record), *relays(cluster.home, cluster.record)]
    found += enforcers(cluster.home, cluster.record)
    found += kept_platform.components(cluster.home)
    return {component.name: component.argv[0] for component in found}


def main_processes(cluster: LocalCluster) -> dict[str, Process]:
    """The process that is each component, not one that it started; none where it does not run."""
    programs = _programs(cluster)
    return {
        process.component: process
        for process in cluster.running()
        if process.argv[0] == programs.get(process.component) or is_manager(process)
    }


def main_process(cluster: LocalCluster, name: str) -> Process | None:
    known = component_names(cluster)
    if name not in known:
        raise LocalError(
            f"cluster {cluster.name!r} has no component {name!r}: it has {', '.join(known)}"
        )
    return main_processes(cluster).get(name)


def kill(cluster: LocalCluster, name: str) -> Process:
    """End it without warning."""
    process = _running(cluster, name)
    processes.send(process, signal.SIGKILL)
    return process


def restart(cluster: LocalCluster, name: str) -> None:
    """Ask it to end, and wait until its successor runs."""
    process = _running(cluster, name)
    processes.send(process, signal.SIGTERM)
    deadline = time.monotonic() + _RESTART_SECONDS
    while True:
        successor = main_process(cluster, name)
        if successor is not None and successor != process:
            return
        if time.monotonic() > deadline:
            raise LocalError(
                f"{name} of cluster {cluster.name!r} did not start again within "
                f"{_RESTART_SECONDS:.0f} s; see `edgewise local logs --name {cluster.name} {name}`"
            )
        time.sleep(0.1)


def pause(cluster: LocalCluster, name: str) -> None:
    """Stop it where it is; a machine with everything in it."""
    deadline = time.monotonic() + _PAUSE_SECONDS
    for pid in _signal_tree(cluster, name, signal.SIGSTOP):
        # On a busy machine it may answer once more before the signal reaches it.
        while processes.runs(pid) and time.monotonic() < deadline:
            time.sleep(0.005)


def resume(cluster: LocalCluster, name: str) -> bool:
    """Let it go on; whether it was paused at all."""
    paused = processes.paused(_running(cluster, name).pid)
    # Also when it was not: in a machine, a part may have been stopped on its own.
    _signal_tree(cluster, name, signal.SIGCONT)
    return paused


def cut(cluster: LocalCluster, node: str | None) -> None:
    """Unplug a node from the others, or the whole cluster from the host and other clusters."""
    where = _cable(cluster, node)
    cluster.home.cuts.mkdir(exist_ok=True, mode=0o700)
    (cluster.home.cuts / where).touch()
    cable_up(cluster.home, cluster.record)


def heal(cluster: LocalCluster, node: str | None) -> None:
    (cluster.home.cuts / _cable(cluster, node)).unlink(missing_ok=True)
    cable_up(cluster.home, cluster.record)


def _cable(cluster: LocalCluster, node: str | None) -> str:
    if not cluster.spec.real:
        raise LocalError(
            f"cluster {cluster.name!r} has no network of its own to cut: "
            "it has no real nodes (`edgewise local up --nodes 1`)"
        )
    if node is None:
        return WHOLE_CLUSTER
    if node not in cluster.spec.node_names:
        raise LocalError(
            f"cluster {cluster.name!r} has no real node {node!r}: "
            f"it has {', '.join(cluster.spec.node_names)}"
        )
    return node


def _running(cluster: LocalCluster, name: str) -> Process:
    process = main_process(cluster, name)
    if process is None:
        raise LocalError(f"{name} of cluster {cluster.name!r} is not running at the moment")
    return process


def _signal_tree(cluster: LocalCluster, name: str, number: signal.Signals) -> list[int]:
    """Who was told."""
    process = _running(cluster, name)
    machines = [holder.name for holder in holders(cluster.record)] if cluster.spec.real else []
    if name not in machines:
        processes.send(process, number)
        return [process.pid]
    pids = _pids_of_machine(cluster, name)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return pids


def _pids_of_machine(cluster: LocalCluster, name: str) -> list[int]:
    """Everything in the machine's control groups, containers too."""
    found: set[int] = set()
    for hierarchy in cgroups.hierarchies():
        top = Path(hierarchy.mount) / top_group_of(cluster.home, name)
        for folder, _, _ in os.walk(top):
            with contextlib.suppress(OSError):
                found |= {int(pid) for pid in (Path(folder) / "cgroup.procs").read_text().split()}
    return sorted(found)
