"""Who counts as late, by a clock that the test turns."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from edgewise.api.global_sessions import HUB_LABEL, SESSION_UID_LABEL, ClientBinding
from edgewise.api.sessions import Session, SessionSpec, SessionStatus
from edgewise.clusters.connections import Connections
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.errors import Invalid
from edgewise.kube.objects import ObjectMeta
from edgewise.sessions.hub.bindings import Bindings
from edgewise.sessions.hub.duties import late_clients
from edgewise.sessions.hub.duties.late_clients import BURST, LateClients
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.members import Members
from edgewise.sessions.hub.records import Hub
from tests.unit.sessions.hub.bindings import binding, global_session, location
from tests.unit.sessions.hub.choosing.test_degraded import template

READY = {"phase": "Ready", "ready": True}


class Place:
    """A member, as far as the duty looks at it."""

    def __init__(self) -> None:
        self.ready = True
        self.trouble = ""
        self.link = SimpleNamespace(since=None)
        self.namespace = "edge"
        self.said: dict[str, dict[str, Any]] = {}
        self.client = SimpleNamespace(get=self.get)
        self.asked = 0

    def session(self, name: str) -> Session:
        return Session(
            metadata=ObjectMeta(
                name=name,
                namespace="edge",
                generation=1,
                labels={HUB_LABEL: "", SESSION_UID_LABEL: "u-1"},
            ),
            spec=SessionSpec(clients={client: {"connected": True} for client in self.said}),
            status=msgspec.convert({"observedGeneration": 1, "clients": self.said}, SessionStatus),
        )

    async def get(self, _: type[Session], name: str, __: str) -> Session:
        self.asked += 1
        return self.session(name)


class Scene:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.hub = Hub(Client(Access(server="http://127.0.0.1:1")), "edge")
        members = Members(self.hub, Connections(self.hub.registry))
        self.places = {"porto": Place(), "paris": Place()}
        monkeypatch.setattr(members, "get", self.places.get)
        monkeypatch.setattr(members, "trouble", lambda name: "")
        self.hub_view = HubView(self.hub, members)
        self.moved: list[tuple[str, str]] = []
        self.duty = LateClients(
            self.hub_view,
            SimpleNamespace(move=self.move),  # type: ignore[arg-type]
            Bindings(self.hub),
            monotonic=lambda: self.now,
        )
        self.revisions = itertools.count(10)
        self.hub.sessions.replace([global_session()], "1")
        self.hub.templates.replace([template()], "1")
        self.hub.bindings.replace([], "1")
        known = [location(name) for name in self.places]
        self.hub.locations.replace(known, "1")

    async def move(self, _: Any, seat: ClientBinding, choice: Any, **fields: Any) -> None:
        self.moved.append((seat.spec.client, choice.name))
        self.join(seat.spec.client, choice.name, **fields)

    def join(self, client: str, cluster: str = "porto", *, gone: bool = False, **spec: Any) -> None:
        changed = binding(client, cluster, rv=next(self.revisions), **spec)
        self.hub.bindings.apply(changed, deleted=gone)

    async def look(self, seconds: float = 1.0) -> list[tuple[str, str]]:
        """Who is moved, `seconds` later; nothing is written, so marks are left out."""
        self.now += seconds
        self.moved = []
        await self.duty.look()
        return self.moved

    async def looks(self, seconds: int) -> list[tuple[str, str]]:
        return [move for _ in range(seconds) for move in await self.look()]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene(monkeypatch)

    async def unwritten() -> None:
        scene.duty._lessons.written()

    monkeypatch.setattr(scene.duty, "_write_marks", unwritten)
    return scene


async def test_an_operator_that_says_nothing_has_its_deadline_and_ten_seconds(scene: Scene) -> None:
    scene.join("alice")
    assert await scene.looks(70) == []
    assert await scene.look() == [("alice", "paris")]
    assert scene.places["porto"].asked == 1


async def test_an_operator_that_says_late_is_believed_at_once(scene: Scene) -> None:
    scene.places["porto"].said = {"alice": {"phase": "Starting", "late": True}}
    scene.join("alice")
    assert await scene.look() == [("alice", "paris")]


async def test_while_the_cluster_is_silent_no_time_counts(scene: Scene) -> None:
    scene.join("alice")
    await scene.looks(60)
    scene.places["porto"].ready = False
    assert await scene.looks(100) == []
    scene.places["porto"].ready = True
    assert await scene.looks(70) == []
    assert await scene.look() == [("alice", "paris")]


async def test_while_nobody_looked_hardly_any_time_counts(scene: Scene) -> None:
    scene.join("alice")
    await scene.looks(50)
    assert await scene.look(3600.0) == []
    assert await scene.looks(14) == []
    assert await scene.looks(3) == [("alice", "paris")]


async def test_who_was_ready_once_is_not_watched_any_more(scene: Scene) -> None:
    scene.places["porto"].said = {"alice": READY}
    scene.join("alice")
    await scene.look()
    scene.places["porto"].said = {}  # as after a status that somebody broke
    assert await scene.looks(200) == []


async def test_who_becomes_ready_in_the_last_moment_stays(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache does not show it yet, the cluster itself does."""
    scene.join("alice")
    await scene.looks(70)
    late = Place()
    late.said = {"alice": READY}
    monkeypatch.setattr(scene.places["porto"].client, "get", late.get)
    assert await scene.looks(5) == []


async def test_many_are_moved_a_few_at_a_time_and_the_cluster_is_asked_once_a_look(
    scene: Scene,
) -> None:
    clients = [f"client-{number}" for number in range(100)]
    scene.places["porto"].said = {each: {"phase": "Starting", "late": True} for each in clients}
    for client in clients:
        scene.join(client)
    assert len(await scene.look()) == BURST
    assert scene.places["porto"].asked <= 16  # as many as go on at once
    assert [len(await scene.look()) for _ in range(14)] == [5] * 14
    assert await scene.look() == []


async def test_a_mark_that_cannot_be_written_keeps_nobody_from_being_moved(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its neighbours in other clusters least of all; it is written when that is possible."""
    monkeypatch.setattr(scene.duty, "_write_marks", partial(LateClients._write_marks, scene.duty))
    written: list[str] = []

    async def patch(_: Any, cluster: str, *__: Any, **___: Any) -> None:
        if refusing and cluster == "porto":
            raise Invalid(422, "Invalid", "status.degraded: Too many")
        written.append(cluster)

    refusing = True
    monkeypatch.setattr(scene.hub.client, "patch", patch)
    scene.places["rome"] = Place()
    scene.hub.locations.replace([location(name) for name in scene.places], "2")
    for cluster in ("paris", "porto"):
        clients = [f"{cluster}-{number}" for number in range(2)]
        scene.places[cluster].said = {e: {"phase": "Starting", "late": True} for e in clients}
        for client in clients:
            scene.join(client, cluster)
    assert len(await scene.look()) == 4
    assert written == ["paris"]
    refusing = False
    await scene.look()
    assert written == ["paris", "porto"]


async def test_a_cluster_that_does_not_answer_holds_up_the_clients_of_no_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows its clients as late, and lets each question about them wait."""
    monkeypatch.setattr(late_clients, "LOOK_SECONDS", 0.05, raising=False)
    answers = asyncio.Event()

    async def hangs(_: Any, name: str, __: str) -> Session:
        await answers.wait()
        return scene.places["porto"].session(name)

    monkeypatch.setattr(scene.places["porto"].client, "get", hangs)
    for cluster, number in (("porto", 40), ("paris", 1)):
        clients = [f"{cluster}-{each}" for each in range(number)]
        scene.places[cluster].said = {e: {"phase": "Starting", "late": True} for e in clients}
        for client in clients:
            scene.join(client, cluster)
    async with asyncio.timeout(2):
        assert await scene.look() == [("paris-0", "porto")]
        assert await scene.look() == []
    assert scene.duty._busy.keys() == {"porto"}
    answers.set()
    assert {client for client, _ in await scene.look()} <= {f"porto-{n}" for n in range(40)}
    await scene.look()
    assert scene.duty._busy == {}
    # Nothing goes on when another leads.
    answers.clear()
    scene.places["porto"].said = {"porto-x": {"phase": "Starting", "late": True}}
    scene.join("porto-x")
    await scene.look()
    left = list(scene.duty._busy.values())
    await scene.duty.end()
    assert [each.cancelled() for each in left] == [True]


async def test_what_is_remembered_goes_with_the_client(scene: Scene) -> None:
    for client in ("alice", "bob"):
        scene.join(client)
    await scene.look()
    scene.join("alice", gone=True)
    scene.join("bob", "")  # back in the queue
    assert scene.duty._waiting == {}
