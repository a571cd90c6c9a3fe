"""What is kept of a session's page is what the session is."""

from __future__ import annotations

import random

import msgspec

from edgewise.api.fleet import MemberCluster
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.objects import ObjectMeta
from edgewise.server.changes import Thing
from edgewise.server.fleet import Fleet
from edgewise.server.hub import Hub
from edgewise.server.members import Members
from edgewise.server.session_pages import SessionPages
from tests.unit.server.bindings import binding, fleet_session


class Scene:
    def __init__(self) -> None:
        self.hub = Hub(Client(Access(server="http://127.0.0.1:1")), "edge")
        self.fleet = Fleet(self.hub, Members(self.hub))
        self.pages = SessionPages(self.fleet)
        self.session = fleet_session()
        self.hub.sessions.replace([self.session], "1")
        self.hub.bindings.replace([], "1")
        cluster = MemberCluster(
            metadata=ObjectMeta(name="porto", namespace="edge", resource_version="1")
        )
        self.hub.clusters.replace([cluster], "1")
        self.revision = 1

    def change(self, client: str, cluster: str, *, gone: bool = False, **spec: object) -> None:
        self.revision += 1
        changed = binding(client, cluster, rv=self.revision, **spec)
        self.hub.bindings.apply(changed, deleted=gone)

    def truth(self, private: bool) -> bytes:
        return msgspec.json.encode(self.fleet.session(self.session, private=private))


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
                scene.fleet.changes.note(Thing("location", "porto"))
        for private in (True, False):
            assert scene.pages.read(scene.session, private=private) == scene.truth(private)
