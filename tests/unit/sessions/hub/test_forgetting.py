"""What the server keeps in memory about sessions, clusters and templates goes with them."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.api.clusters import Cluster
from edgewise.api.exposure import Turn
from edgewise.api.sessions import SessionTemplate
from edgewise.clusters.connections import Connections
from edgewise.clusters.health import ClusterHealth
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.kinds.core import ConfigMap
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.heartbeats.presence import WINDOW_SECONDS
from edgewise.server.http.request_ids import METHODS, method_label
from edgewise.sessions.hub.encoded_sessions import EncodedSessions
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.members import Members
from edgewise.sessions.hub.presence import Presence
from edgewise.sessions.hub.records import Hub
from edgewise.sessions.hub.repair.templates import TemplateRepair
from edgewise.sessions.hub.turn_credentials import TurnDesk
from tests.unit.sessions.hub.bindings import binding, global_session, location


class Scene:
    def __init__(self) -> None:
        self.hub = Hub(Client(Access(server="http://127.0.0.1:1")), "edge")
        self.hub_view = HubView(self.hub, Members(self.hub, Connections(self.hub.registry)))
        self.hub.sessions.replace([], "1")
        self.hub.bindings.replace([], "1")
        self.hub.registry.clusters.replace([], "1")
        self.hub.locations.replace([], "1")
        self.hub.templates.replace([], "1")
        self.hub.heartbeats.replace([], "1")
        self.revision = 1

    def show(self, cache: Any, obj: Any, *, gone: bool = False) -> None:
        self.revision += 1
        obj.metadata.resource_version = str(self.revision)
        cache.apply(obj, deleted=gone)


def cluster(name: str = "porto") -> Cluster:
    return Cluster(metadata=ObjectMeta(name=name, namespace="edge", uid=name))


def test_a_session_that_goes_before_its_clients_is_not_counted_any_more() -> None:
    scene = Scene()
    pages = EncodedSessions(scene.hub_view)
    scene.show(scene.hub.sessions, global_session())
    scene.show(scene.hub.bindings, binding("alice", "porto"))
    scene.show(scene.hub.sessions, global_session(), gone=True)
    scene.show(scene.hub.bindings, binding("alice", "porto"), gone=True)
    assert pages._touched == {}


@pytest.mark.parametrize("private", [True, False])
def test_the_page_of_a_session_goes_with_it(private: bool) -> None:
    scene = Scene()
    pages = EncodedSessions(scene.hub_view)
    scene.show(scene.hub.sessions, global_session())
    pages.read(global_session(), private=private)
    assert pages._decoded
    scene.show(scene.hub.sessions, global_session(), gone=True)
    assert pages._decoded == {}


def test_places_that_nobody_sits_at_are_not_counted() -> None:
    scene = Scene()
    with scene.hub_view.ledger.claiming("porto", "room"):
        scene.show(scene.hub.bindings, binding("alice", "porto"))
    scene.show(scene.hub.bindings, binding("alice", "porto"), gone=True)
    assert scene.hub_view.ledger._seated == {}
    assert scene.hub_view.ledger._claims == {}


async def test_the_health_of_a_cluster_that_left_is_forgotten() -> None:
    scene = Scene()
    health = ClusterHealth(scene.hub.registry, scene.hub_view.members.connections)
    left = cluster()
    left.status.health = "Connecting"
    scene.show(scene.hub.registry.clusters, left)
    await health.look()
    assert set(health._written) == {"porto"}
    scene.show(scene.hub.registry.clusters, cluster(), gone=True)
    await health.look()
    assert health._written == {}


def test_the_turn_secret_of_a_location_that_left_is_forgotten() -> None:
    scene = Scene()
    desk = TurnDesk(scene.hub)
    for name in ("porto", "lyon"):
        found = location(name)
        found.spec.turn = Turn(urls=["turn:198.51.100.1:3478"], secret="turn")
        scene.show(scene.hub.locations, found)
    desk.ice_servers(binding("alice", "porto"))
    scene.show(scene.hub.locations, location("porto"), gone=True)
    desk.ice_servers(binding("bob", "lyon"))
    assert set(desk._known) == {"lyon"}


async def test_copies_of_a_template_that_is_gone_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    repair = TemplateRepair(scene.hub_view)
    repair._written = {("porto", "arena"): ("1", 1), ("porto", "lobby"): ("1", 1)}
    monkeypatch.setattr(type(scene.hub.link), "ready", True)
    template = SessionTemplate.named("lobby", "edge", spec={})
    scene.show(scene.hub.templates, template)
    await repair.repair("arena")
    assert set(repair._written) == {("porto", "lobby")}
    await repair.repair("lobby")  # porto is no member any more
    assert repair._written == {}


async def test_the_heartbeats_of_those_who_have_left_are_forgotten() -> None:
    scene = Scene()
    now = 1000.0
    presence = Presence(scene.hub, monotonic=lambda: now)

    async def written(_: bytes) -> None:
        return None

    presence._write = written  # type: ignore[method-assign]
    presence.beat("somebody-who-has-left-meanwhile")
    now += WINDOW_SECONDS + 1
    await presence.flush()
    assert presence._anywhere == {}
    book = ConfigMap.named("edgewise-heartbeats-x", "edge")
    scene.show(scene.hub.heartbeats, book)
    assert set(presence._books_changed) == {"edgewise-heartbeats-x"}
    scene.show(scene.hub.heartbeats, book, gone=True)
    assert presence._books_changed == {}


def test_a_caller_cannot_make_series_by_inventing_methods() -> None:
    assert {method_label(f"GET{number}") for number in range(1000)} == {"other"}
    assert {method_label(method) for method in METHODS} == METHODS
