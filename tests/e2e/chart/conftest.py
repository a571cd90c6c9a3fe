"""The chart on a real cluster, as `helm install` leaves it: two operators, two gateways."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import pytest_asyncio

from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.client import Client
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Namespace, Pod, Service
from edgewise.local.clusters import LocalCluster
from edgewise.local.images.building import edgewise_image
from edgewise.local.images.load import load, nodes_of
from edgewise.runtime.awaiting import Waiting, watching
from edgewise.testing.clusters import temporary_cluster
from edgewise.testing.eventually import eventually
from tests.e2e.sessions.conftest import Rooms
from tests.e2e.sessions.traffic import ask_by_udp
from tests.e2e.sessions.workloads import NAMESPACE

CHART = Path(__file__).parents[3] / "deploy" / "chart"
SYSTEM = "edgewise-system"
# Nobody has to resolve it: clients here are told which way to take to it.
PUBLIC_HOST = "edge.test"
GATEWAY_HTTP = 8080


class Installation:
    """What the chart has made, and ways into it."""

    def __init__(
        self, cluster: LocalCluster, client: Client, rooms: Rooms, pods: Waiting[Pod]
    ) -> None:
        self.cluster = cluster
        self.client = client
        self.rooms = rooms
        self._pods = pods
        self._last_words: list[str] = []

    def pods(self, component: str) -> list[Pod]:
        """Those that are meant to run."""
        label = "app.kubernetes.io/component"
        return [
            pod
            for pod in self._pods.cache.all(SYSTEM)
            if pod.metadata.labels.get(label) == component and not pod.metadata.deleting
        ]

    async def both_ready(self, component: str, within: float = 60) -> list[Pod]:
        def ready() -> None:
            states = {pod.metadata.name: pod.ready for pod in self.pods(component)}
            assert list(states.values()) == [True, True], states

        await eventually(ready, within=within, every=0.05)
        return self.pods(component)

    async def leader(self) -> Pod | None:
        """The operator pod that holds the lease."""
        lease = await self.client.get(Lease, "edgewise-operator", SYSTEM)
        holder = (lease.spec.holder_identity or "").partition("_")[0]
        found = [pod for pod in self.pods("operator") if pod.metadata.name == holder]
        return found[0] if found else None

    async def service_address(self) -> str:
        return (await self.client.get(Service, "edgewise-gateway", SYSTEM)).spec.cluster_ip

    async def kill(self, pod: Pod) -> None:
        self._last_words += await self.lines(pod)
        await self.client.delete(Pod, pod.metadata.name, SYSTEM, grace_seconds=0)

    @contextlib.contextmanager
    def frozen_agent(self, pod: Pod) -> Iterator[None]:
        """The agent of a gateway does nothing inside the block, and nobody is told."""
        pid = agent_of(pod)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    async def logged(self) -> list[str]:
        """What all programs have said, also those that were killed."""
        found = list(self._last_words)
        for component in ("operator", "gateway"):
            for pod in self.pods(component):
                found += await self.lines(pod)
        return found

    async def lines(self, pod: Pod) -> list[str]:
        name, containers = pod.metadata.name, pod.spec["containers"]
        return [
            f"{name}: {line}"
            for each in containers
            for line in (await self.client.logs(name, SYSTEM, container=each["name"])).splitlines()
        ]

    async def pod_behind(self, endpoints: dict[str, str], host: str, http_port: int) -> str:
        """Who answers by HTTP and by UDP at the gateway that `host` leads to."""
        url = urlsplit(endpoints["http"])
        assert url.hostname == PUBLIC_HOST
        by_http = await self.rooms.ask(f"http://{host}:{http_port}{url.path}")
        port = urlsplit(endpoints["game"]).port
        assert port is not None
        by_udp = await ask_by_udp(host, port, b"hello")
        assert by_udp.decode() == f"{by_http['pod']} hello"
        return str(by_http["pod"])


def agent_of(pod: Pod) -> int:
    """The process of the gateway's agent: nodes are namespaces of this machine."""
    host_name = f"HOSTNAME={pod.metadata.name}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes().split(b"\0")
            environment = (folder / "environ").read_bytes().split(b"\0")
            if b"--envoy=elsewhere" in command and host_name in environment:
                return int(folder.name)
    raise AssertionError(f"the agent of {pod.metadata.name} does not run")


async def helm_in(cluster: LocalCluster, command: str, *arguments: str) -> None:
    """Helm, while everything else goes on."""
    where = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={SYSTEM}")
    await asyncio.to_thread(helm, command, "edge", *arguments, *where)


def helm(*arguments: str) -> None:
    beside = Path(sys.executable).parent / "helm"
    program = str(beside) if beside.exists() else shutil.which("helm")
    if program is None:
        pytest.skip("helm is not installed")
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with temporary_cluster("chart", nodes=2) as cluster:
        yield cluster


def chart_values(**more: object) -> list[str]:
    """The arguments that name the chart and its values for these nodes."""
    repository, _, tag = edgewise_image().name.rpartition(":")
    values = {
        "image.repository": repository,
        "image.tag": tag,
        "image.pullPolicy": "Never",
        "operator.replicas": 2,
        # The cluster has no Gateway API, which must disturb nobody who does not ask for it.
        "operator.gatewayApi": "infra/edge",
        "gateway.replicas": 2,
        "gateway.publicUrl": f"http://{PUBLIC_HOST}",
        "gateway.publicHost": PUBLIC_HOST,
        "gateway.service.type": "ClusterIP",
        "gateway.workers": 1,
        "gateway.drainSeconds": 0,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    given = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    return [str(CHART), *given]


@pytest.fixture(scope="module")
def installed(cluster: LocalCluster) -> LocalCluster:
    load(edgewise_image().archive, nodes_of([cluster]))
    where = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={SYSTEM}")
    helm("install", "edge", *where, "--create-namespace", *chart_values())
    return cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(installed: LocalCluster) -> AsyncIterator[Installation]:
    async with (
        installed.client() as client,
        watching(client, Session, Pod, SessionTemplate) as (sessions, pods, templates),
        aiohttp.ClientSession(
            # A new connection for each request: a Service then chooses anew.
            connector=aiohttp.TCPConnector(force_close=True),
            timeout=aiohttp.ClientTimeout(total=10),
        ) as http,
    ):
        await client.create(Namespace.named(NAMESPACE))
        rooms = Rooms(installed, None, client)
        rooms.sessions, rooms.pods, rooms.templates = sessions, pods, templates
        rooms.http = http
        yield Installation(installed, client, rooms, pods)
