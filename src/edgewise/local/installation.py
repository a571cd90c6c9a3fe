"""An installation on this machine: members, the hub that knows them, and the servers over it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from edgewise.api.clusters import ClusterSpec, Ping
from edgewise.api.installation import install
from edgewise.clusters.enrolment import self_contained
from edgewise.domain import Domain, cluster_kinds, hub_kinds, install_domains
from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists
from edgewise.kube.kinds.core import Namespace
from edgewise.local.clusters import LocalCluster
from edgewise.local.platform import Platform, Program, free_ports, running_platform
from edgewise.local.platform_site import LOOPBACK
from edgewise.operator import DOMAINS
from edgewise.server.identity.api_tokens import make_token, secret_of
from edgewise.server.identity.principal import Role
from edgewise.sessions.hub.enrolment import enrol_location

APPLICATION = "local"


class Silence(msgspec.Struct, frozen=True):
    """How long a member may be silent before it gets nobody new, and before it is lost."""

    suspect_after: float = 2.0
    lost_after: float = 6.0


class Installation(msgspec.Struct, frozen=True):
    """`urls` and `servers` belong to each other; `token` is an application's."""

    urls: list[str]
    servers: list[Program]
    token: str
    # A reader's, for who only wants to look.
    watcher: str
    platforms: dict[str, Platform]

    @property
    def page(self) -> str:
        """The live page, with the right to see it: what is behind # stays in the browser."""
        return f"{self.urls[0]}/#token={self.watcher}"


@contextlib.asynccontextmanager
async def running_installation(
    hub: LocalCluster,
    members: Mapping[str, LocalCluster],
    *,
    namespace: str = "default",
    gateway: bool = True,
    inside: bool = False,
    servers: int = 1,
    silence: Silence = Silence(),  # noqa: B008 - it cannot be changed
    domains: Sequence[Domain] = DOMAINS,
) -> AsyncIterator[Installation]:
    """The platform in each member and servers over all, for as long as the block runs."""
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(hub.client())
        await install(client, hub_kinds(domains))
        await _make_namespace(client, namespace)
        token = await _token(client, namespace, Role.APP)
        watcher = await _token(client, namespace, Role.READER)
        platforms: dict[str, Platform] = {}

        async def add(name: str, cluster: LocalCluster) -> None:
            async with cluster.client() as member:
                await install_domains(member, domains, cluster_kinds(domains))
                await _make_namespace(member, namespace)
            platforms[name] = await stack.enter_async_context(
                running_platform(cluster, gateway=gateway, inside=inside)
            )
            await _enrol(client, namespace, name, cluster, platforms[name])

        programs = [_server(hub, number, namespace, silence) for number in range(servers)]
        async with asyncio.TaskGroup() as starting:
            for name, cluster in members.items():
                starting.create_task(add(name, cluster))
            for program, _ in programs:
                stack.push_async_callback(program.stop)
                starting.create_task(program.start())
        yield Installation(
            urls=[url for _, url in programs],
            servers=[program for program, _ in programs],
            token=token,
            watcher=watcher,
            platforms=platforms,
        )


async def _make_namespace(client: Client, namespace: str) -> None:
    with contextlib.suppress(AlreadyExists):
        await client.create(Namespace.named(namespace))


async def _token(hub: Client, namespace: str, role: Role) -> str:
    token, kept = make_token(role, APPLICATION)
    await hub.create(secret_of(kept, namespace))
    return token


async def _enrol(
    hub: Client, namespace: str, name: str, cluster: LocalCluster, platform: Platform
) -> None:
    ping = Ping()
    if platform.ping:
        ping = Ping(http=f"http://{platform.ping}/ping", udp=platform.ping)
    await enrol_location(
        hub,
        namespace,
        name,
        cluster=ClusterSpec(region=cluster.spec.region, ping=ping),
        kubeconfig=self_contained(cluster.kubeconfig, None),
    )


def _server(
    hub: LocalCluster, number: int, namespace: str, silence: Silence
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
    return Program(hub, f"server-{number}", arguments, f"{url}/readyz"), url
