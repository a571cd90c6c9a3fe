"""Whatever is killed, paused, restarted or cut comes back."""

import asyncio
import signal

import pytest

from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError
from edgewise.kube.kinds.core import Node
from edgewise.local import faults
from edgewise.local.clusters import LocalCluster
from edgewise.local.errors import LocalError
from edgewise.local.machines import processes
from edgewise.local.readiness import usable
from edgewise.testing.eventually import eventually
from tests.e2e.local.workloads import delete_pods, fetch, ready_pod, until_ready, web_spec

pytestmark = pytest.mark.root


async def until_all_is_well(cluster: LocalCluster, *, within: float = 90.0) -> None:
    async def is_well() -> None:
        running = faults.main_processes(cluster)
        assert [name for name in faults.component_names(cluster) if name not in running] == []
        async with asyncio.timeout(5), cluster.client() as client:
            nodes = (await client.list(Node)).items
        assert [node.metadata.name for node in nodes if not usable(node)] == []
        assert len(nodes) == cluster.spec.nodes + cluster.spec.simulated_nodes

    await eventually(is_well, within=within, every=0.2, not_yet=(KubeError, TimeoutError, OSError))


async def until_successor(cluster: LocalCluster, name: str, before: processes.Process) -> None:
    async def runs_again() -> None:
        process = faults.main_process(cluster, name)
        assert process is not None
        assert process != before

    await eventually(runs_again, within=30, every=0.1)


@pytest.mark.parametrize(
    "names",
    [
        ["etcd"],
        ["kube-apiserver"],
        ["kube-controller-manager", "kube-scheduler", "kwok", "coredns"],
    ],
)
async def test_killed_programs_of_the_control_plane_run_again(
    cluster: LocalCluster, names: list[str]
) -> None:
    killed = {name: faults.kill(cluster, name) for name in names}
    for name, process in killed.items():
        await until_successor(cluster, name, process)
    await until_all_is_well(cluster)


async def test_pods_outlive_kubelet_and_containerd(cluster: LocalCluster, client: Client) -> None:
    node = cluster.spec.node_names[0]
    await ready_pod(client, "survivor", web_spec(nodeSelector={"kubernetes.io/hostname": node}))
    try:
        killed = {
            name: faults.kill(cluster, name) for name in (f"{node}/kubelet", f"{node}/containerd")
        }
        for name, process in killed.items():
            await until_successor(cluster, name, process)
        await until_all_is_well(cluster)
        pod = await until_ready(client, "survivor")
        assert [status.restart_count for status in pod.status.container_statuses] == [0]
        assert (await fetch(pod.status.pod_ip)).startswith("survivor ")
    finally:
        await delete_pods(client, ["survivor"])


async def test_a_node_that_loses_power_comes_back_with_its_pods(
    cluster: LocalCluster, client: Client
) -> None:
    node = cluster.spec.node_names[1]
    await ready_pod(client, "rebooted", web_spec(nodeSelector={"kubernetes.io/hostname": node}))
    try:
        await until_successor(cluster, node, faults.kill(cluster, node))
        await until_all_is_well(cluster)

        async def serves_again() -> None:
            pod = await until_ready(client, "rebooted")
            assert pod.status.container_statuses[0].restart_count > 0
            assert (await fetch(pod.status.pod_ip)).startswith("rebooted ")

        await eventually(serves_again, within=60, every=0.5, not_yet=(OSError, TimeoutError))
    finally:
        await delete_pods(client, ["rebooted"])


async def test_the_whole_control_plane_comes_back(cluster: LocalCluster) -> None:
    await until_successor(cluster, "control-plane", faults.kill(cluster, "control-plane"))
    await until_all_is_well(cluster)


async def test_a_killed_manager_is_replaced_and_supervision_goes_on(cluster: LocalCluster) -> None:
    names = [name for name in faults.component_names(cluster) if name != "manager"]
    before = {name: faults.main_process(cluster, name) for name in names}
    await until_successor(cluster, "manager", faults.kill(cluster, "manager"))
    await asyncio.sleep(1.0)  # long enough for a manager to do harm
    assert {name: faults.main_process(cluster, name) for name in names} == before
    await until_successor(cluster, "coredns", faults.kill(cluster, "coredns"))
    await until_all_is_well(cluster)


async def test_a_paused_api_server_is_silent_until_it_is_resumed(cluster: LocalCluster) -> None:
    faults.pause(cluster, "kube-apiserver")
    try:
        with pytest.raises((KubeError, TimeoutError)):
            async with asyncio.timeout(2), cluster.client() as client:
                await client.version()
    finally:
        faults.resume(cluster, "kube-apiserver")
    await until_all_is_well(cluster)


@pytest.mark.parametrize("name", ["kube-scheduler", "kube-apiserver"])
async def test_a_restart_returns_when_the_successor_runs(cluster: LocalCluster, name: str) -> None:
    before = faults.main_process(cluster, name)
    faults.restart(cluster, name)
    assert faults.main_process(cluster, name) not in (None, before)
    await until_all_is_well(cluster)


async def test_a_cut_node_counts_as_lost_until_its_cable_is_mended(
    cluster: LocalCluster, client: Client
) -> None:
    node = cluster.spec.node_names[0]

    async def is_lost() -> None:
        assert not usable(await client.get(Node, node))

    faults.cut(cluster, node)
    try:
        await eventually(is_lost, within=90, every=0.5)
    finally:
        faults.heal(cluster, node)
    await until_all_is_well(cluster)


async def test_a_cut_cluster_is_out_of_reach_but_lives(cluster: LocalCluster) -> None:
    faults.cut(cluster, None)
    try:
        with pytest.raises((KubeError, TimeoutError)):
            async with asyncio.timeout(3), cluster.client() as client:
                await client.version()
    finally:
        faults.heal(cluster, None)
    await until_all_is_well(cluster)


def test_unknown_components_and_nodes_are_named(cluster: LocalCluster) -> None:
    with pytest.raises(LocalError, match=r"has no component 'kubelet'.*kube-apiserver"):
        faults.kill(cluster, "kubelet")
    with pytest.raises(LocalError, match="has no real node 'nowhere'"):
        faults.cut(cluster, "nowhere")


async def test_a_signal_never_hits_whoever_has_the_number_now(cluster: LocalCluster) -> None:
    process = faults.kill(cluster, "kwok")
    await eventually(lambda: not process.alive)
    assert not processes.send(process, signal.SIGKILL)
