"""A cluster with all that a WebRTC client meets: server, operator, gateway, coturn and images."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from edgewise.api.exposure import Turn
from edgewise.bench.sessions.webrtc_sample import (
    TURN_MANIFESTS,
    TURN_NAMESPACE,
    TURN_NODE_PORT,
    check_sample,
    images,
)
from edgewise.client import Edgewise
from edgewise.errors import ReadableError
from edgewise.exposure.turn import TurnRealm
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace, Node, Secret
from edgewise.local.clusters import LocalCluster
from edgewise.local.images.building import build_app
from edgewise.local.images.load import load, nodes_of
from edgewise.local.installation import running_installation
from edgewise.sessions.hub.enrolment import set_turn

LOCATION = "edge"
NAMESPACE = "default"
START_SECONDS = 120.0


class StageError(ReadableError):
    """Something that has to be there before the first client did not come up."""


class Stage(msgspec.Struct, frozen=True):
    """`url` and `token` are for the SDK; `client` is for the cluster itself."""

    client: Client
    url: str
    token: str


@contextlib.asynccontextmanager
async def webrtc_stage(
    cluster: LocalCluster, template: dict[str, Any], tell: Callable[[str], None]
) -> AsyncIterator[Stage]:
    """The cluster is its own hub and only member; `template` is in it."""
    check_sample()
    await load_images(cluster, tell)
    tell("starting coturn, the server, the operator and the gateway")
    async with (
        cluster.client() as client,
        running_installation(cluster, {LOCATION: cluster}, namespace=NAMESPACE) as installation,
    ):
        realm = await start_turn(cluster, client)
        turn = Turn(urls=list(realm.urls))
        await set_turn(client, NAMESPACE, LOCATION, turn, realm.secret.encode())
        await client.apply(template)
        await _until_usable(installation.urls[0], installation.token, template["metadata"]["name"])
        yield Stage(client, installation.urls[0], installation.token)


async def load_images(cluster: LocalCluster, tell: Callable[[str], None]) -> None:
    tell("putting the images into the cluster")

    def put() -> None:
        for app in images():
            load(build_app(app).archive, nodes_of([cluster]))

    await asyncio.to_thread(put)


async def start_turn(cluster: LocalCluster, client: Client) -> TurnRealm:
    """coturn on the nodes, with a secret of its own."""
    secret = secrets.token_hex(32)
    await _start_coturn(cluster, client, secret)
    return TurnRealm((f"turn:{await _node_address(client)}:{TURN_NODE_PORT}",), secret)


async def _start_coturn(cluster: LocalCluster, client: Client, secret: str) -> None:
    """From the files that are deployed elsewhere, too."""
    await client.create(Namespace.named(TURN_NAMESPACE))
    await client.create(Secret.named("turn", TURN_NAMESPACE, data={"secret": secret.encode()}))
    kubectl = [cluster.program("kubectl"), f"--kubeconfig={cluster.kubeconfig}"]
    await _run(*kubectl, "apply", "-k", str(TURN_MANIFESTS))
    wait = ["rollout", "status", "deployment/turn", f"--timeout={START_SECONDS:.0f}s"]
    await _run(*kubectl, f"--namespace={TURN_NAMESPACE}", *wait)


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines() or ["it does not say why"]
        raise StageError(f"coturn could not be started: {lines[-1]}")


async def _node_address(client: Client) -> str:
    for node in (await client.list(Node)).items:
        for each in node.status.addresses:
            if each.type == "InternalIP":
                return each.address
    raise StageError("the cluster has no node with an address")


async def _until_usable(url: str, token: str, template: str) -> None:
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    async with Edgewise(url, token) as edgewise:
        while True:
            ready = all(each.state == "ready" for each in await edgewise.locations())
            if ready and template in {each.name for each in await edgewise.templates()}:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise StageError(f"the server does not offer {template} in {LOCATION}")
            await asyncio.sleep(0.1)
