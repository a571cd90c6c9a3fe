"""A cluster that cannot start the pods, and one that falls silent under its clients: real control
planes, operators and servers.

Three clusters with simulated nodes: a hub, and two members with their operators. Two
replicas of the server, as processes. The clients are the SDK.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from edgewise.api.clusters import Cluster
from edgewise.api.sessions import PodTemplate, Session, SessionTemplate, SessionTemplateSpec
from edgewise.client import Edgewise, EdgewiseError, Seat
from edgewise.kube.kinds.core import Node
from edgewise.local import faults
from edgewise.local.clusters import LocalCluster
from edgewise.local.installation import Installation, Silence, running_installation
from edgewise.testing.clusters import temporary_cluster
from edgewise.testing.eventually import eventually

NAMESPACE = "default"
CLIENTS = 5
LOST_AFTER = 6.0
BACK_SECONDS = 30.0


async def seated(cluster: LocalCluster) -> set[str]:
    async with cluster.client() as client:
        return set((await client.get(Session, "room-1", NAMESPACE)).spec.clients)


@pytest.fixture
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster, LocalCluster]]:
    with (
        temporary_cluster("hub", controllers=False) as hub,
        temporary_cluster("porto", simulated_nodes=1) as porto,
        temporary_cluster("paris", simulated_nodes=1) as paris,
    ):
        yield hub, porto, paris


async def test_clients_are_back_elsewhere_and_nobody_is_in_two(
    clusters: tuple[LocalCluster, LocalCluster, LocalCluster],
) -> None:
    hub, porto, paris = clusters
    members = {"porto": porto, "paris": paris}
    silence = Silence(suspect_after=2, lost_after=LOST_AFTER)
    async with running_installation(
        hub, members, gateway=False, servers=2, silence=silence
    ) as hub_view:
        async with hub.client() as client:
            await client.create(template("demo"))
            await client.create(template("picky", {"has": "a-gpu"}, ready_seconds=2))
        await in_the_only_place_that_starts_it(porto, hub_view)
        await play(clusters, hub_view)


def template(name: str, selector: dict[str, str] | None = None, **spec: int) -> SessionTemplate:
    pod = {
        "containers": [{"name": "x", "image": "edgewise.local/simulated:1"}],
        "nodeSelector": selector or {},
    }
    pod_template = PodTemplate(name="demo", template={"spec": pod})
    return SessionTemplate.named(
        name,
        NAMESPACE,
        spec=SessionTemplateSpec(
            pod_templates=[pod_template],
            timeout_seconds=60,
            exposure="None",
            ready_seconds=spec.get("ready_seconds"),
        ),
    )


async def in_the_only_place_that_starts_it(porto: LocalCluster, hub_view: Installation) -> None:
    """Everything is equal but for the nodes, and a client is put into paris first, by name."""
    async with porto.client() as client:
        (node,) = (await client.list(Node)).items
        labels = {"metadata": {"labels": {"has": "a-gpu"}}}
        await client.patch(Node, node.metadata.name, body=labels)
    async with Edgewise(hub_view.urls[0], hub_view.token) as edgewise:
        await eventually(lambda: _all_ready(edgewise), within=60, every=0.2)
        await edgewise.create_session("picky", "room-2")
        async with edgewise.join("room-2", client="alice", measure=False) as seat:
            assert (seat.location, seat.view.moves) == ("porto", 1)
            assert seat.why.startswith("paris did not make it ready within 2 s (")
        await edgewise.delete_session("room-2")


async def _all_ready(edgewise: Edgewise) -> bool:
    return {each.state for each in await edgewise.locations()} == {"ready"}


async def play(
    clusters: tuple[LocalCluster, LocalCluster, LocalCluster], hub_view: Installation
) -> None:
    hub, porto, paris = clusters
    first, second = hub_view.urls
    token = hub_view.token
    async with contextlib.AsyncExitStack() as stack:
        edgewise = await stack.enter_async_context(Edgewise(second, token))
        await eventually(lambda: _all_ready(edgewise), within=60, every=0.2)
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
        await hub_view.servers[0].kill()
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
                cluster = await client.get(Cluster, "porto", NAMESPACE)
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

    await eventually(nowhere, every=0.2)
