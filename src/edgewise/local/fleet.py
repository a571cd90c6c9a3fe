"""A fleet on this machine: members, the hub that knows them, and the servers over it."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import msgspec

from edgewise.api.fleet import ClientBinding, FleetSession, MemberCluster, MemberClusterSpec, Ping
from edgewise.api.installation import install
from edgewise.api.sessions import PortClaim, Session, SessionTemplate
from edgewise.kube.client import Client
from edgewise.kube.core import Namespace
from edgewise.kube.errors import AlreadyExists
from edgewise.kube.objects import Object
from edgewise.local.clusters import Cluster
from edgewise.local.platform import LOOPBACK, Platform, Program, free_ports, running_platform
from edgewise.server.enrolment import enrol, self_contained
from edgewise.server.identity.api_tokens import make_token, secret_of
from edgewise.server.identity.principal import Role

HUB_KINDS = (FleetSession, ClientBinding, MemberCluster, SessionTemplate)
MEMBER_KINDS = (Session, SessionTemplate, PortClaim)
APPLICATION = "local"


class Silence(msgspec.Struct, frozen=True):
    """How long a member may be silent before it gets nobody new, and before it is lost."""

    suspect_after: float = 2.0
    lost_after: float = 6.0


class Fleet(msgspec.Struct, frozen=True):
    """`urls` and `servers` belong to each other; `token` is an application's."""

    urls: list[str]
    servers: list[Program]
    token: str
    platforms: dict[str, Platform]


@contextlib.asynccontextmanager
async def running_fleet(
    hub: Cluster,
    members: Mapping[str, Cluster],
    *,
    namespace: str = "default",
    gateway: bool = True,
    inside: bool = False,
    servers: int = 1,
    silence: Silence = Silence(),  # noqa: B008 - it cannot be changed
) -> AsyncIterator[Fleet]:
    """The platform in each member and servers over all, for as long as the block runs."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgewise-fleet-")))
        client = await stack.enter_async_context(hub.client())
        await _prepare(client, namespace, HUB_KINDS)
        token = await _application_token(client, namespace)
        platforms: dict[str, Platform] = {}

        async def add(name: str, cluster: Cluster) -> None:
            async with cluster.client() as member:
                await _prepare(member, namespace, MEMBER_KINDS)
            platforms[name] = await stack.enter_async_context(
                running_platform(cluster, gateway=gateway, inside=inside)
            )
            await _enrol(client, namespace, name, cluster, platforms[name])

        programs = [_server(hub, folder, number, namespace, silence) for number in range(servers)]
        async with asyncio.TaskGroup() as starting:
            for name, cluster in members.items():
                starting.create_task(add(name, cluster))
            for program, _ in programs:
                stack.push_async_callback(program.stop)
                starting.create_task(program.start())
        yield Fleet(
            urls=[url for _, url in programs],
            servers=[program for program, _ in programs],
            token=token,
            platforms=platforms,
        )


async def _prepare(client: Client, namespace: str, kinds: Sequence[type[Object]]) -> None:
    await install(client, kinds)
    with contextlib.suppress(AlreadyExists):
        await client.create(Namespace.named(namespace))


async def _application_token(hub: Client, namespace: str) -> str:
    token, kept = make_token(Role.APP, APPLICATION)
    await hub.create(secret_of(kept, namespace))
    return token


async def _enrol(
    hub: Client, namespace: str, name: str, cluster: Cluster, platform: Platform
) -> None:
    ping = Ping()
    if platform.ping:
        ping = Ping(http=f"http://{platform.ping}/ping", udp=platform.ping)
    spec = MemberClusterSpec(region=cluster.spec.region, ping=ping)
    await enrol(hub, namespace, name, spec, self_contained(cluster.kubeconfig, None))


def _server(
    hub: Cluster, folder: Path, number: int, namespace: str, silence: Silence
) -> tuple[Program, str]:
    (port,) = free_ports(1)
    url = f"http://{LOOPBACK}:{port}"
    arguments = [
        "server",
        f"--kubeconfig={hub.kubeconfig}",
        f"--namespace={namespace}",
        f"--listen={LOOPBACK}:{port}",
        "--metrics=",
        "--quiet",
        f"--suspect-after={silence.suspect_after}",
        f"--lost-after={silence.lost_after}",
    ]
    name = f"server-{number}"
    return Program(name, arguments, folder / f"{name}.log", f"{url}/readyz"), url
