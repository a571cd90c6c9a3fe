"""Programs that run beside a cluster: they are the cluster's, and Ctrl-C is not for them."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer, TestServer

from edgewise.local import kept_platform, manager, registry
from edgewise.local.clusters import LocalCluster
from edgewise.local.component import Component
from edgewise.local.errors import StartFailed
from edgewise.local.layout import ClusterRecord, Home
from edgewise.local.machines import processes
from edgewise.local.machines.supervision import Supervisor, directly
from edgewise.local.platform import Program, free_ports
from edgewise.local.platform_site import Site
from edgewise.local.spec import LocalClusterSpec
from edgewise.local.status import ComponentStatus, platform_asked
from edgewise.local.teardown import remove
from edgewise.testing.eventually import eventually


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalCluster:
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "state"))
    home = Home.of("edge-1")
    home.write(ClusterRecord(spec=LocalClusterSpec(name="edge-1"), index=3, programs={}))
    home.logs.mkdir()
    return LocalCluster(home)


def ping(cluster: LocalCluster) -> Program:
    (port,) = free_ports(1)
    where = f"127.0.0.1:{port}"
    arguments = ["ping", f"--http={where}", f"--udp={where}"]
    return Program(cluster, "ping", arguments, f"http://{where}/ping")


async def test_a_program_beside_the_cluster_goes_with_it(cluster: LocalCluster) -> None:
    program = ping(cluster)
    await program.start()
    pid = program.pid
    assert os.getsid(pid) == pid, "a Ctrl-C at the terminal would reach it"
    (found,) = cluster.running()
    assert (found.pid, found.component) == (pid, "ping")
    await asyncio.to_thread(remove, cluster.home)
    assert processes.started(pid) is None
    await program.stop()


async def test_what_an_ended_program_leaves_running_is_found(cluster: LocalCluster) -> None:
    """As an Envoy outlives its agent."""
    child = await asyncio.create_subprocess_exec(
        "setsid",
        "--fork",
        "sleep",
        "60",
        env=os.environ | processes.marks(cluster.home.path, "gateway"),
    )
    await child.wait()
    (left,) = cluster.running()
    await asyncio.to_thread(remove, cluster.home)
    assert processes.started(left.pid) is None


async def test_last_words_are_passed_on(cluster: LocalCluster) -> None:
    program = Program(cluster, "ping", ["ping", "--http=nowhere"], "http://127.0.0.1:1/")
    with pytest.raises(StartFailed, match="nowhere"):
        await program.start()


# A manager that no longer wants a program has no use for its handle either.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_what_is_wanted_comes_back_and_what_is_not_ends(cluster: LocalCluster) -> None:
    sleeper = Component(name="operator", argv=("sleep", "60"))
    wanted = [sleeper]
    keeping = asyncio.create_task(
        manager.keep_wanted(Supervisor(cluster.home), lambda: wanted, lambda _: directly)
    )
    try:
        first = await one(cluster)
        processes.send(first, signal.SIGKILL)
        second = await one(cluster, besides=first)
        wanted.clear()
        await eventually(lambda: not second.alive)
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})
        await asyncio.to_thread(remove, cluster.home)


async def test_a_process_that_does_not_say_that_it_is_ready_is_not(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ready(_: web.BaseRequest) -> web.Response:
        return web.Response()

    async with TestServer(web.Application()) as refuses, RawTestServer(ready) as agrees:
        site = Site(
            host="127.0.0.1",
            webhook_host="127.0.0.1",
            http=1,
            control=refuses.port or 0,
            health=agrees.port or 0,
            webhook=1,
            echo=1,
        )
        monkeypatch.setattr(registry, "registry_folder", lambda: cluster.home.path / "registry")
        kept_platform.want(cluster.home, site, gateway=True)
        seen = [ComponentStatus(name, "running", 1, 0, 0, 0) for name in ("operator", "gateway")]
        etcd = ComponentStatus("etcd", "running", 1, 0, 0, 0)
        told = await platform_asked(cluster, [*seen, etcd])
    assert {part.name: part.state for part in told} == {
        "operator": "running",
        "gateway": "not ready",
        "etcd": "running",
    }


async def one(cluster: LocalCluster, besides: processes.Process | None = None) -> processes.Process:
    async with asyncio.timeout(10):
        while True:
            found = [p for p in cluster.running() if p.alive and p != besides]
            if found and found[0].argv[0] == "sleep":
                return found[0]
            await asyncio.sleep(0.02)
