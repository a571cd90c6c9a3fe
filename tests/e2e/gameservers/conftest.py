"""One real cluster with an operator, and games that really run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from edgewise.api.games import Allocation, AllocationSpec, Fleet, Server
from edgewise.domain import cluster_kinds, install_domains
from edgewise.gameservers import names
from edgewise.gameservers.domain import GAMESERVERS
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Namespace, Node, Pod
from edgewise.kube.objects import Object
from edgewise.local.clusters import LocalCluster
from edgewise.local.connecting import connect
from edgewise.local.images.building import PYTHON_IMAGE
from edgewise.local.platform import Platform, running_platform
from edgewise.operator import DOMAINS
from edgewise.testing.clusters import temporary_cluster
from edgewise.testing.eventually import eventually

SHARES = "games"
NAMESPACE = "games"
# Answers datagrams with what it is, until it is told to end.
GAME = """
import os, signal, socket
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
    port.bind(("0.0.0.0", int(os.environ.get("PORT_PLAY", "7654"))))
    while True:
        said, who = port.recvfrom(1024)
        if said == b"crash":
            print("the dragon won", flush=True)
            os._exit(3)
        port.sendto(os.environ["SERVER_NAME"].encode(), who)
"""


def game(**spec: Any) -> dict[str, Any]:
    container = {"name": "game", "image": PYTHON_IMAGE, "command": ["python3", "-c", GAME]}
    return {
        "pod": {"containers": [container], "terminationGracePeriodSeconds": 5},
        "ports": [{"name": "play", "containerPort": 7654}],
        **spec,
    }


class Games:
    def __init__(
        self, cluster: LocalCluster, platform: Platform, client: Client, operator: Client
    ) -> None:
        self.cluster = cluster
        self.platform = platform
        self.client = client
        self.operator = operator

    async def make(
        self, kind: type[Object], name: str, spec: dict[str, Any], namespace: str = NAMESPACE
    ) -> None:
        await self.client.apply(
            {
                "apiVersion": kind.KIND.api_version,
                "kind": kind.KIND.kind,
                "metadata": {"name": name, "namespace": namespace},
                "spec": spec,
            },
            field_manager="somebody",
        )

    async def server(self, name: str, namespace: str = NAMESPACE, **spec: Any) -> Server:
        await self.make(Server, name, game(**spec), namespace)
        return await self.becomes(name, "Ready", namespace=namespace)

    async def becomes(
        self, name: str, state: str, within: float = 60.0, namespace: str = NAMESPACE
    ) -> Server:
        async def there() -> None:
            found = await self.client.get(Server, name, namespace)
            assert found.status.state == state, found.status

        await eventually(there, within=within, not_yet=(NotFound,))
        return await self.client.get(Server, name, namespace)

    async def is_gone(
        self,
        kind: type[Object],
        name: str,
        within: float = 60.0,
        namespace: str = NAMESPACE,
    ) -> None:
        async def gone() -> bool:
            try:
                await self.client.get(kind, name, namespace)
            except NotFound:
                return True
            return False

        await eventually(gone, within=within)

    async def pod(self, server: str, namespace: str = NAMESPACE) -> Pod:
        return await self.client.get(Pod, names.pod_of(server), namespace)

    async def allocate(self, server: str, namespace: str = NAMESPACE) -> Allocation:
        found = await self.client.get(Server, server, namespace)
        spec = AllocationSpec(server_uid=found.metadata.uid, match="m")
        return await self.operator.create(Allocation.named(server, namespace, spec=spec))

    @contextlib.asynccontextmanager
    async def without_operator(self) -> AsyncIterator[None]:
        await self.platform.operator.stop()
        try:
            yield
        finally:
            await self.platform.operator.start()

    async def kubectl(
        self, *arguments: str, timeout: float = 60.0, namespace: str = NAMESPACE
    ) -> tuple[int, str]:
        def run() -> tuple[int, str]:
            done = subprocess.run(
                [
                    self.cluster.program("kubectl"),
                    f"--kubeconfig={self.cluster.kubeconfig}",
                    f"--namespace={namespace}",
                    *arguments,
                ],
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
            return done.returncode, done.stdout + done.stderr

        return await asyncio.to_thread(run)

    async def sdk(
        self,
        server: str,
        path: str,
        body: dict[str, Any] | None = None,
        namespace: str = NAMESPACE,
    ) -> Any:
        """What the game of a server calls, from inside its container."""
        data = "None" if body is None else repr(json.dumps(body).encode())
        code = (
            "import os, urllib.request as u; "
            f"print(u.urlopen(os.environ['EDGEWISE_SDK_URL'] + {path!r}, {data}).read().decode())"
        )
        return json.loads(await self.inside(server, code, namespace))

    async def inside(self, server: str, code: str, namespace: str = NAMESPACE) -> str:
        """What a few lines of Python print in the container of a game."""
        status, text = await self.kubectl(
            "exec",
            names.pod_of(server),
            "-c",
            "game",
            "--",
            "python3",
            "-c",
            code,
            namespace=namespace,
        )
        # One that allowed its end may be gone before it could say that it printed all.
        assert status == 0 or (status == 137 and text), text
        return text.partition("\ncommand terminated")[0]

    async def clear(self) -> None:
        for kind in (Fleet, Server):
            for each in (await self.client.list(kind, NAMESPACE)).items:
                body: dict[str, Any] = {"spec": {"operation": "Kill"}}
                if kind is Server:
                    await self.client.patch(kind, each.metadata.name, NAMESPACE, body=body)
                if not each.metadata.deleting:
                    await self.client.delete(kind, each.metadata.name, NAMESPACE)
        for node in (await self.client.list(Node)).items:
            if node.spec.unschedulable or node.spec.taints:
                await self.client.patch(
                    Node, node.metadata.name, body={"spec": {"unschedulable": None, "taints": None}}
                )

        async def none_left() -> None:
            for kind in (Fleet, Server, Pod, Allocation):
                left = (await self.client.list(kind, NAMESPACE)).items
                for each in left:
                    if isinstance(each, Server) and each.spec.operation != "Kill":
                        await self.client.patch(
                            Server,
                            each.metadata.name,
                            NAMESPACE,
                            body={"spec": {"operation": "Kill"}},
                        )
                assert not left, [each.key for each in left]

        await eventually(none_left, within=60, every=0.3, not_yet=(NotFound,))


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    with temporary_cluster("games", nodes=2) as made:
        yield made


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def platform(cluster: LocalCluster) -> AsyncIterator[Platform]:
    async with cluster.client() as client:
        await install_domains(client, DOMAINS, cluster_kinds((GAMESERVERS, *DOMAINS)))
        await client.apply(Namespace.named(NAMESPACE))
    async with running_platform(cluster, gateway=False) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def games(cluster: LocalCluster, platform: Platform) -> AsyncIterator[Games]:
    async with cluster.client() as client, connect(cluster.home.operator_kubeconfig) as operator:
        made = Games(cluster, platform, client, operator)
        yield made
        await made.clear()
