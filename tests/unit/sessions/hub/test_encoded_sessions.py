"""What is kept of a session's page is what the session is."""

from __future__ import annotations

import asyncio
import random

import msgspec

from edgewise.api.clusters import Cluster, ClusterSpec
from edgewise.clusters.connections import Connections
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.objects import ObjectMeta
from edgewise.sessions.hub.changes import Thing
from edgewise.sessions.hub.encoded_sessions import EncodedSessions
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.members import Members
from edgewise.sessions.hub.records import Hub
from edgewise.testing.eventually import eventually
from tests.unit.sessions.hub.bindings import binding, global_session, location


class Scene:
    def __init__(self) -> None:
        self.hub = Hub(Client(Access(server="http://127.0.0.1:1")), "edge")
        self.hub_view = HubView(self.hub, Members(self.hub, Connections(self.hub.registry)))
        self.pages = EncodedSessions(self.hub_view)
        self.session = global_session()
        self.hub.sessions.replace([self.session], "1")
        self.hub.bindings.replace([], "1")
        cluster = Cluster(metadata=ObjectMeta(name="porto", namespace="edge", resource_version="1"))
        self.hub.registry.clusters.replace([cluster], "1")
        self.hub.locations.replace([location("porto")], "1")
        self.revision = 1

    def change(self, client: str, cluster: str, *, gone: bool = False, **spec: object) -> None:
        self.revision += 1
        changed = binding(client, cluster, rv=self.revision, **spec)
        self.hub.bindings.apply(changed, deleted=gone)

    def truth(self, private: bool) -> bytes:
        return msgspec.json.encode(self.hub_view.session(self.session, private=private))


async def test_the_same_page_is_not_written_twice() -> None:
    scene = Scene()
    scene.change("alice", "porto")
    first = scene.pages.read(scene.session, private=True)
    assert scene.pages.read(scene.session, private=True) is first


async def test_other_sessions_do_not_matter() -> None:
    scene = Scene()
    first = scene.pages.read(scene.session, private=True)
    scene.change("bob", "porto", session="room-2", session_uid="u-2")
    assert scene.pages.read(scene.session, private=True) is first


async def test_a_cluster_that_was_connected_to_in_between_is_shown_so() -> None:
    scene = Scene()
    cluster = Cluster(
        metadata=ObjectMeta(name="porto", namespace="edge", resource_version="2"),
        spec=ClusterSpec(kubeconfig_secret="missing"),
    )
    scene.hub.registry.clusters.apply(cluster)
    assert b"is being connected to" in scene.pages.read(scene.session, private=True)
    members = asyncio.create_task(scene.hub_view.members.connections.run())
    await eventually(lambda: "has no Secret" in scene.hub_view.members.trouble("porto"))
    assert b"has no Secret missing" in scene.pages.read(scene.session, private=True)
    members.cancel()
    await asyncio.wait({members})
    assert b"is being connected to" in scene.pages.read(scene.session, private=True)


async def test_whatever_happens_the_page_is_true() -> None:
    chance = random.Random(3)
    scene = Scene()
    for _ in range(300):
        match chance.randrange(5):
            case 0 | 1:
                scene.change(chance.choice("abcde"), chance.choice(["porto", ""]))
            case 2:
                scene.change(chance.choice("abcde"), "porto", gone=True)
            case 3:
                scene.change("x", "", session="room-2", session_uid="u-2")
            case _:
                scene.hub_view.changes.note(Thing("location", "porto"))
        for private in (True, False):
            assert scene.pages.read(scene.session, private=private) == scene.truth(private)
