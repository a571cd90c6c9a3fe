"""Locations come, go and change while their clusters are connected to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from edgewise.api.clusters import Cluster, ClusterSpec, Ping
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.clusters.connections import Connections
from edgewise.kube.errors import Forbidden, Unreachable
from edgewise.kube.objects import ObjectMeta
from edgewise.sessions.hub.changes import Thing
from edgewise.sessions.hub.duties.location_messages import LocationMessages
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.members import Members
from edgewise.sessions.hub.records import Hub
from edgewise.testing.eventually import eventually
from tests.unit.runtime.test_connected_cluster import QUICK
from tests.unit.runtime.test_connected_cluster import Cluster as ClusterInMemory
from tests.unit.sessions.hub.bindings import global_session, location


class Scene:
    """A hub whose clusters are all the same one, in memory."""

    def __init__(self) -> None:
        self.cluster = ClusterInMemory()
        self.cluster.objects = []
        self.cluster.get = self.get  # type: ignore[attr-defined]
        self.hub = Hub(self.cluster, "edge", patience=QUICK)  # type: ignore[arg-type]
        self.connections = Connections(self.hub.registry, patience=QUICK)
        self.members = Members(self.hub, self.connections)
        self.hub_view = HubView(self.hub, self.members)
        self.hub.registry.clusters.replace([], "1")
        self.hub.locations.replace([], "1")
        self.hub.registry.secrets.replace([], "1")
        self.revision = 1

    async def get(self, *_: Any) -> Any:
        raise Forbidden(403, "Forbidden", "no seat key for you")

    def show(self, cache: Any, obj: Any, *, gone: bool = False) -> None:
        self.revision += 1
        obj.metadata.resource_version = str(self.revision)
        cache.apply(obj, deleted=gone)

    def register(self, name: str, **spec: Any) -> None:
        meta = ObjectMeta(name=name, namespace="edge", uid=name)
        self.show(self.hub.registry.clusters, Cluster(metadata=meta, spec=ClusterSpec(**spec)))

    def locate(self, name: str, cluster: str = "", *, gone: bool = False, **spec: Any) -> None:
        self.show(self.hub.locations, location(name, cluster, **spec), gone=gone)

    def followed(self) -> list[str]:
        return sorted(kind.KIND.plural for kind in self.cluster.watching)

    def ready(self, name: str) -> bool:
        found = self.members.get(name)
        return found is not None and found.ready


BOTH = sorted([Session.KIND.plural, SessionTemplate.KIND.plural])


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    task = asyncio.create_task(scene.connections.run())
    yield scene
    task.cancel()
    await asyncio.wait({task})


async def connected(scene: Scene, name: str = "porto") -> None:
    await eventually(lambda: (it := scene.connections.get(name)) is not None and it.ready)


async def test_a_cluster_without_a_location_is_connected_to_and_takes_nobody(scene: Scene) -> None:
    scene.register("porto")
    await connected(scene)
    assert scene.hub_view.places() == []
    assert scene.members.all() == []
    assert scene.followed() == []


async def test_a_location_is_followed_on_the_connection_that_is_there(scene: Scene) -> None:
    scene.register("porto", region="eu", ping=Ping(udp="192.0.2.1:7"))
    await connected(scene)
    connection = scene.connections.get("porto")
    assert connection is not None
    health: list[str] = []
    connection.link.on_health(lambda: health.append(connection.link.health))
    told: list[bool] = []
    scene.members.on_open(lambda member: member.on_health(lambda: told.append(member.ready)))
    scene.locate("west", "porto", capacity=3)
    await eventually(lambda: scene.ready("west"))
    assert scene.connections.get("porto") is connection
    assert health == []
    # The cluster had nothing to tell, but the repair is to begin.
    await eventually(lambda: told == [True])
    (seen,) = scene.hub_view.seen.all()
    assert (seen.name, seen.cluster, seen.region, seen.capacity) == ("west", "porto", "eu", 3)
    assert (seen.ping.udp, seen.ready, seen.trouble) == ("192.0.2.1:7", True, "")


async def test_a_location_that_goes_is_not_followed_and_its_cluster_stays(scene: Scene) -> None:
    scene.register("porto")
    scene.locate("porto")
    await eventually(lambda: scene.ready("porto"))
    await eventually(lambda: scene.followed() == BOTH)
    connection = scene.connections.get("porto")
    assert connection is not None
    scene.locate("porto", gone=True)
    await eventually(lambda: scene.followed() == [])
    assert scene.members.get("porto") is None
    assert connection.ready
    # Of what is gone nothing is kept.
    assert connection.link._listeners == []
    await eventually(lambda: connection._beside == set())


async def test_a_location_that_changes_its_namespace_is_followed_there(scene: Scene) -> None:
    scene.register("porto")
    scene.locate("porto")
    await eventually(lambda: scene.ready("porto"))
    before = scene.members.get("porto")
    scene.locate("porto", capacity=7, cordoned=True)
    assert scene.members.get("porto") is before  # that is nothing to be followed elsewhere
    scene.locate("porto", namespace="other")
    after = scene.members.get("porto")
    assert after is not None
    assert after is not before
    assert not after.ready
    assert scene.members.trouble("porto") == "is being caught up with"
    await eventually(lambda: scene.ready("porto"))
    assert after.sessions.selection.namespace == "other"
    await eventually(lambda: scene.followed() == BOTH)


async def test_one_cluster_may_have_two_locations_in_two_namespaces(scene: Scene) -> None:
    scene.register("porto")
    scene.locate("east", "porto", namespace="east")
    scene.locate("west", "porto", namespace="west")
    await eventually(lambda: scene.ready("east") and scene.ready("west"))
    scene.locate("east", "porto", namespace="east", gone=True)
    await eventually(lambda: scene.followed() == BOTH)
    assert scene.ready("west")


async def test_of_two_locations_in_one_namespace_the_older_one_is_followed(scene: Scene) -> None:
    scene.register("porto")
    older, newer = location("z", "porto"), location("a", "porto")
    older.metadata.creation_timestamp = "2030-01-01T00:00:00Z"
    newer.metadata.creation_timestamp = "2030-01-01T00:00:01Z"
    scene.show(scene.hub.locations, newer)
    await eventually(lambda: scene.ready("a"))
    scene.show(scene.hub.locations, older)
    await eventually(lambda: scene.ready("z"))
    assert scene.members.get("a") is None
    said = "uses the same namespace of porto as z, which was there first"
    assert scene.members.trouble("a") == said
    scene.show(scene.hub.locations, older, gone=True)
    await eventually(lambda: scene.ready("a"))


async def test_a_location_waits_for_its_cluster_and_says_so(scene: Scene) -> None:
    scene.locate("west", "porto")
    assert scene.members.trouble("west") == "is in the cluster porto, which is not registered"
    (place,) = scene.hub_view.places()
    assert place.trouble
    (seen,) = scene.hub_view.seen.all()
    assert not seen.registered
    scene.register("porto")
    await eventually(lambda: scene.ready("west"))
    assert scene.members.trouble("west") == ""


async def test_what_may_not_be_seen_is_the_trouble_of_the_location_alone(scene: Scene) -> None:
    scene.register("porto")
    await connected(scene)
    scene.cluster.refused = {Session}
    scene.locate("porto")
    said = "refuses us: sessions is forbidden"
    await eventually(lambda: scene.members.trouble("porto") == said)
    await asyncio.sleep(QUICK.suspect_after * 2)
    connection = scene.connections.get("porto")
    assert connection is not None
    assert connection.ready
    assert not scene.ready("porto")


async def test_what_is_wrong_with_a_location_is_in_its_object_once(scene: Scene) -> None:
    written: list[tuple[str, Any]] = []

    async def patch(_kind: Any, name: str, *_: Any, body: Any, **__: Any) -> None:
        written.append((name, body["status"]["message"]))

    scene.cluster.patch = patch  # type: ignore[attr-defined]
    messages = LocationMessages(scene.hub, scene.members)
    scene.locate("west", "porto")
    for _ in range(3):
        await messages.look()
    assert written == [("west", "west is in the cluster porto, which is not registered")]
    said = location("west", "porto")
    said.status.message = written[0][1]
    scene.show(scene.hub.locations, said)
    scene.register("porto")
    scene.cluster.trouble = Unreachable("no route")
    await messages.look()
    # That its cluster is silent is for the cluster to say.
    assert written[1:] == [("west", None)]
    scene.locate("west", gone=True)
    await messages.look()
    assert messages._written == {}


async def test_a_location_is_cordoned_and_the_cluster_is_not(scene: Scene) -> None:
    scene.register("porto")
    scene.locate("east", "porto", namespace="east", cordoned=True)
    scene.locate("west", "porto", namespace="west")
    cordoned = {place.name: place.cordoned for place in scene.hub_view.places()}
    assert cordoned == {"east": True, "west": False}


async def test_a_session_is_limited_by_the_name_of_the_location_and_its_region(
    scene: Scene,
) -> None:
    scene.register("porto", region="eu")
    scene.locate("west", "porto")
    for wanted, allowed in (
        ({"locations": ["west"]}, True),
        ({"locations": ["porto"]}, False),
        ({"regions": ["eu"]}, True),
        ({"regions": ["us"]}, False),
    ):
        (place,) = scene.hub_view.places(global_session(**wanted))
        assert place.allowed is allowed, wanted


async def test_a_change_of_a_cluster_is_one_of_its_locations(scene: Scene) -> None:
    scene.register("porto")
    scene.locate("west", "porto")
    with scene.hub_view.changes.subscribe(()) as changes:
        changes.take()
        scene.register("porto", region="eu")
        assert Thing("location", "west") in changes.take()
