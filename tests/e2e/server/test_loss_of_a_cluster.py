"""A whole cluster falls silent under its clients: real control planes, operators and servers.

Three clusters with simulated nodes: a hub, and two members with their operators. Two
replicas of the server, as processes. The clients are the SDK.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from edgewise.api.fleet import ClientBinding, FleetSession, MemberCluster, MemberClusterSpec
from edgewise.api.installation import install
from edgewise.api.sessions import (
    PodTemplate,
    PortClaim,
    Session,
    SessionTemplate,
    SessionTemplateSpec,
)
from edgewise.client import Edgewise, EdgewiseError, Seat
from edgewise.local import faults
from edgewise.local.clusters import Cluster
from edgewise.local.platform import Program, running_platform
from edgewise.server.enrolment import enrol, self_contained
from edgewise.server.identity.api_tokens import make_token, secret_of
from edgewise.server.identity.principal import Role
from edgewise.testing.clusters import temporary_cluster
from edgewise.testing.eventually import eventually
from tests.integration.conftest import free_port

NAMESPACE = "default"
CLIENTS = 5
LOST_AFTER = 6.0
BACK_SECONDS = 15.0
FLEET = (FleetSession, ClientBinding, MemberCluster, SessionTemplate)
MEMBER = (Session, SessionTemplate, PortClaim)


@contextlib.asynccontextmanager
async def fleet_of(hub: Cluster, members: dict[str, Cluster]) -> AsyncIterator[str]:
    """The members enrolled and running, a template, and a token for an application."""
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(hub.client())
        await install(client, FLEET)
        for name, cluster in members.items():
            member = await stack.enter_async_context(cluster.client())
            await install(member, MEMBER)
            await stack.enter_async_context(running_platform(cluster, gateway=False))
            kubeconfig = self_contained(cluster.kubeconfig, None)
            await enrol(client, NAMESPACE, name, MemberClusterSpec(region=name), kubeconfig)
        pod = {"containers": [{"name": "x", "image": "edgewise.local/simulated:1"}]}
        template = PodTemplate(name="demo", template={"spec": pod})
        spec = SessionTemplateSpec(pod_templates=[template], timeout_seconds=60, exposure="None")
        await client.create(SessionTemplate.named("demo", NAMESPACE, spec=spec))
        token, kept = make_token(Role.APP, "arena")
        await client.create(secret_of(kept, NAMESPACE))
        yield token


def server(hub: Cluster, folder: Path, number: int) -> tuple[Program, str]:
    url = f"http://127.0.0.1:{free_port()}"
    arguments = [
        "server",
        f"--kubeconfig={hub.kubeconfig}",
        f"--namespace={NAMESPACE}",
        f"--listen={url.removeprefix('http://')}",
        "--metrics=",
        "--suspect-after=2",
        f"--lost-after={LOST_AFTER}",
    ]
    return Program(f"server {number}", arguments, folder / f"server-{number}.log", url), url


async def seated(cluster: Cluster) -> set[str]:
    async with cluster.client() as client:
        return set((await client.get(Session, "room-1", NAMESPACE)).spec.clients)


@pytest.fixture
def clusters() -> Iterator[tuple[Cluster, Cluster, Cluster]]:
    with (
        temporary_cluster("hub", controllers=False) as hub,
        temporary_cluster("porto", simulated_nodes=1) as porto,
        temporary_cluster("paris", simulated_nodes=1) as paris,
    ):
        yield hub, porto, paris


async def test_clients_are_back_elsewhere_and_nobody_is_in_two(
    clusters: tuple[Cluster, Cluster, Cluster], tmp_path: Path
) -> None:
    hub, porto, paris = clusters
    async with fleet_of(hub, {"porto": porto, "paris": paris}) as token:
        await play(tmp_path, clusters, token)


async def play(folder: Path, clusters: tuple[Cluster, Cluster, Cluster], token: str) -> None:
    hub, porto, paris = clusters
    programs = [server(hub, folder, number) for number in (1, 2)]
    for program, _ in programs:
        await program.start()
    first, second = (url for _, url in programs)
    async with contextlib.AsyncExitStack() as stack:
        for program, _ in programs:
            stack.push_async_callback(program.stop)
        edgewise = await stack.enter_async_context(Edgewise(second, token))

        async def both_ready() -> bool:
            return {each.state for each in await edgewise.locations()} == {"ready"}

        await eventually(both_ready, within=60, every=0.2)
        await edgewise.create_session("demo", "room-1")
        seats: list[Seat] = []
        for number in range(CLIENTS):
            seat = Edgewise(second, token).join(
                "room-1", client=f"client-{number}", location="porto"
            )
            seats.append(await stack.enter_async_context(seat))
        assert {seat.location for seat in seats} == {"porto"}
        assert await seated(porto) == {seat.client for seat in seats}

        # One replica dies, perhaps the leader; the clients do not notice.
        await programs[0][0].kill()
        async with Edgewise(first, token, patience=0) as dead:
            try:
                await dead.locations()
            except EdgewiseError:
                pass
            else:
                raise AssertionError("the first replica should be dead")

        faults.pause(porto, "kube-apiserver")

        async def lost() -> bool:
            async with hub.client() as client:
                cluster = await client.get(MemberCluster, "porto", NAMESPACE)
                return cluster.status.health == "Lost"

        await eventually(lost, within=60, every=0.1)
        detected = time.monotonic()
        await eventually(
            lambda: all(seat.location == "paris" and seat.ready for seat in seats), within=60
        )
        took = time.monotonic() - detected
        assert took <= BACK_SECONDS
        assert all(seat.view.moves == 1 for seat in seats)
        assert await seated(paris) == {seat.client for seat in seats}

        faults.resume(porto, "kube-apiserver")

        async def only_in_paris() -> bool:
            return await seated(porto) == set() and len(await seated(paris)) == CLIENTS

        await eventually(only_in_paris, within=30, every=0.2)

    async def nowhere() -> bool:
        return not await seated(paris) and not await seated(porto)

    await eventually(nowhere, within=10, every=0.2)
