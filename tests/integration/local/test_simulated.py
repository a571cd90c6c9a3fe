"""Clusters on loopback: what they do, and how they start, fail and end."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise.api.installation import install
from edgewise.domain import all_kinds
from edgewise.kube.client import Client
from edgewise.kube.errors import Forbidden, NotFound
from edgewise.kube.kinds.core import Namespace, Node, Pod, ServiceAccount
from edgewise.kube.objects import ObjectMeta
from edgewise.local import clusters, faults, manager, registry
from edgewise.local.clusters import LocalCluster, LocalClusterSpec
from edgewise.local.errors import StartFailed
from edgewise.local.layout import Home, Ports
from edgewise.local.machines import processes
from edgewise.local.platform import running_platform
from edgewise.operator import DOMAINS
from edgewise.testing.clusters import temporary_cluster, unique_name
from edgewise.testing.eventually import eventually

EDGEWISE = [sys.executable, "-m", "edgewise.cli", "local"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with temporary_cluster("sim", simulated_nodes=3, region="eu-north") as cluster:
        yield cluster


def wait_for(check: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def test_pods_run_on_simulated_nodes_and_are_collected(cluster: LocalCluster) -> None:
    async with cluster.client() as client:
        nodes = {node.metadata.name for node in (await client.list(Node)).items}
        assert nodes == set(cluster.spec.simulated_names)
        await client.create(Namespace(metadata=ObjectMeta(name="play")))
        spec = {"containers": [{"name": "main", "image": "edgewise.test/nothing:1"}]}

        async def account_is_there() -> object:
            return await client.get(ServiceAccount, "default", "play")

        await eventually(account_is_there, within=20, not_yet=(NotFound,))
        await client.create(Pod(metadata=ObjectMeta(name="player", namespace="play"), spec=spec))

        async def is_running() -> None:
            pod = await client.get(Pod, "player", "play")
            assert pod.status.phase == "Running"
            assert pod.status.pod_ip in str(pod.status.pod_ips)

        await eventually(is_running, within=30, every=0.1)
        await client.delete(Namespace, "play")

        async def is_gone() -> None:
            names = {each.metadata.name for each in (await client.list(Namespace)).items}
            assert "play" not in names

        await eventually(is_gone, within=40, every=0.1)


async def test_rights_are_enforced(cluster: LocalCluster) -> None:
    access = cluster.client().access
    async with Client(access) as client:
        await client.request("GET", "/api/v1/nodes", headers={"Impersonate-User": "edgewise:kwok"})
        with pytest.raises(Forbidden):
            await client.request(
                "GET", "/api/v1/secrets", headers={"Impersonate-User": "edgewise:kwok"}
            )


def test_starting_again_changes_nothing(cluster: LocalCluster) -> None:
    before = faults.main_processes(cluster)
    again = clusters.up(cluster.spec)
    assert again.record == cluster.record
    assert faults.main_processes(cluster) == before


def test_when_manager_and_standby_are_gone_up_begins_anew_with_what_runs(
    cluster: LocalCluster,
) -> None:
    before = faults.main_processes(cluster)
    for process in cluster.running():
        if process.component == manager.NAME:
            processes.send(process, signal.SIGKILL)
    wait_for(lambda: all(p.component != manager.NAME for p in cluster.running()), 10)
    clusters.up(cluster.spec)
    after = faults.main_processes(cluster)
    assert after.pop(manager.NAME) != before.pop(manager.NAME)
    assert after == before
    killed = faults.kill(cluster, "kwok")
    wait_for(lambda: faults.main_process(cluster, "kwok") not in (None, killed), 10)


def test_a_port_that_somebody_took_is_named_and_nothing_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = unique_name("taken")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        free = [port + 1, port + 2]
        monkeypatch.setattr(
            registry, "_free_ports", lambda _home, _others: Ports(free[0], port, free[1])
        )
        try:
            with pytest.raises(StartFailed, match=r"etcd of cluster.*something else has its port"):
                clusters.up(LocalClusterSpec(name=name, controllers=False))
        finally:
            clusters.down(name)
    assert not Home.of(name).path.exists()
    assert processes.of_cluster(Home.of(name).path) == []


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_is_asked_to_end_takes_down_what_was_begun(tmp_path: Path, by: signal.Signals) -> None:
    state = tmp_path / "state"
    home = Home.of("interrupted", state)
    environment = os.environ | {"EDGEWISE_STATE_DIR": str(state)}
    # Under nohup it would be ignored by all that are started there.
    heeded = ["env", f"--default-signal={by.name.removeprefix('SIG')}"]
    with subprocess.Popen(
        [*heeded, *EDGEWISE, "up", "--name", "interrupted", "--simulated-nodes", "1"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as up:
        wait_for(lambda: processes.of_cluster(home.path), 60)
        assert up.stderr is not None
        up.send_signal(by)
        said = ""
        for line in up.stderr:
            said += line
            if "taking interrupted down again" in line:
                up.send_signal(by)  # somebody who cannot wait
        up.wait(timeout=60)
    assert up.returncode == 128 + by
    assert "taking interrupted down again" in said
    assert "Traceback" not in said
    assert processes.of_cluster(home.path) == []
    assert not state.exists()


def test_a_closed_pipe_takes_down_what_was_begun(tmp_path: Path) -> None:
    state = tmp_path / "state"
    command = " ".join([*EDGEWISE, "up", "--name", "piped", "--simulated-nodes", "1"])
    subprocess.run(
        ["sh", "-c", f"{command} 2>&1 | head -1"],
        env=os.environ | {"EDGEWISE_STATE_DIR": str(state)},
        check=True,
        capture_output=True,
        timeout=120,
    )
    home = Home.of("piped", state)
    wait_for(lambda: not processes.of_cluster(home.path) and not home.path.exists(), 60)


def test_bad_wishes_get_one_sentence(tmp_path: Path) -> None:
    environment = os.environ | {"EDGEWISE_STATE_DIR": str(tmp_path / "state")}

    def fails(*arguments: str) -> str:
        done = subprocess.run(
            [*EDGEWISE, *arguments],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode != 0
        lines = done.stderr.strip().splitlines()
        assert len(lines) == 1, done.stderr
        return lines[0]

    assert "cannot be called 'Bad_Name'" in fails("up", "--name", "Bad_Name")
    assert "start it with `edgewise local up --name nowhere`" in fails(
        "kubeconfig", "--name", "nowhere"
    )
    assert "there is no local cluster" in fails("status")
    assert "choose what to cut" in fails("fault", "cut", "--name", "nowhere")
    assert "is not a latency" in fails("up", "--nodes", "1", "--latency", "soon")
    assert not (tmp_path / "state").exists()


async def test_an_envoy_whose_agent_died_goes_down_with_the_cluster() -> None:
    name = unique_name("orphan")
    try:
        cluster = await clusters.bring_up(LocalClusterSpec(name=name, controllers=False))
        async with cluster.client() as client:
            await install(client, all_kinds(DOMAINS))
        async with running_platform(cluster) as platform:
            assert platform.gateway is not None
            programs = {process.argv[0]: process for process in cluster.running()}
            (envoy,) = (p for argv, p in programs.items() if argv.endswith("envoy"))
            await platform.gateway.kill()
        assert envoy.alive, "it serves on without its agent"
    finally:
        await asyncio.to_thread(clusters.down, name)
    assert not envoy.alive
    assert not list(registry.registry_folder().glob(f"*{cluster.home.short}*"))
