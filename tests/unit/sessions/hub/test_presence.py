"""Who is silent, as far as anybody could have heard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from edgewise.api.global_sessions import BindingState
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.errors import AlreadyExists, NotFound, Unreachable
from edgewise.kube.kinds.core import ConfigMap
from edgewise.runtime.heartbeats.encoding import mark, read_heartbeats, write_heartbeats
from edgewise.sessions.hub.presence import Presence
from edgewise.sessions.hub.records import Hub
from tests.unit.sessions.hub.bindings import binding


class Scene:
    """One replica's presence, fed by hand, with a clock that only moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.hub = Hub(Client(Access(server="http://127.0.0.1:1")), "edge")
        self.presence = Presence(self.hub, monotonic=lambda: self.now)
        self.hub.bindings.replace([], "0")
        self.hub.heartbeats.replace([], "0")
        self.revision = 0

    def seat(self, client: str, **spec: Any) -> str:
        self.revision += 1
        found = binding(client, "porto", rv=self.revision, **spec)
        self.hub.bindings.apply(found)
        return found.metadata.name

    def book(self, *heard: str, ago: float = 0.0) -> None:
        """Another replica tells whom it heard."""
        self.revision += 1
        content = write_heartbeats({mark(name): -ago for name in heard}, 0.0, 60.0)
        book = ConfigMap.named("edgewise-heartbeats-x", "edge", binary_data={"heard": content})
        book.metadata.resource_version = str(self.revision)
        self.hub.heartbeats.apply(book)


def test_silence_begins_with_the_seat() -> None:
    scene = Scene()
    scene.now += 500
    name = scene.seat("alice")
    assert scene.presence.silent_for(name) == 0
    scene.now += 7
    assert scene.presence.silent_for(name) == 7


def test_being_heard_here_or_elsewhere_ends_it() -> None:
    scene = Scene()
    alice, bob = scene.seat("alice"), scene.seat("bob")
    scene.now += 20
    scene.presence.beat(alice)
    scene.book(bob, ago=4)
    assert scene.presence.silent_for(alice) == 0
    assert scene.presence.silent_for(bob) == 4


def test_an_old_book_does_not_unhear_anybody() -> None:
    scene = Scene()
    alice = scene.seat("alice")
    scene.now += 20
    scene.presence.beat(alice)
    scene.book(alice, ago=9)
    assert scene.presence.silent_for(alice) == 0


def test_coming_back_from_being_lost_counts_as_being_heard() -> None:
    scene = Scene()
    alice = scene.seat("alice", state=BindingState.DISCONNECTED)
    scene.now += 100
    scene.seat("alice")
    assert scene.presence.silent_for(alice) == 0


def test_nobody_is_blamed_for_the_time_when_nobody_could_be_heard() -> None:
    scene = Scene()
    alice = scene.seat("alice")
    scene.now += 100
    for listener in scene.hub.link._listeners:  # the hub was away, and is back
        listener()
    assert scene.presence.silent_for(alice) == 0


async def test_nobody_is_blamed_for_the_time_when_this_process_stood_still() -> None:
    scene = Scene()
    alice = scene.seat("alice")
    running = asyncio.create_task(scene.presence.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    scene.now += 1.5
    assert scene.presence.silent_for(alice) == 1.5  # as late as any busy process
    scene.now += 20
    assert scene.presence.silent_for(alice) == 0
    running.cancel()
    await asyncio.wait({running})


def test_who_has_left_is_forgotten_even_if_a_book_still_names_them() -> None:
    scene = Scene()
    alice = scene.seat("alice")
    scene.presence.beat(alice)
    scene.revision += 1
    scene.hub.bindings.apply(binding("alice", "porto", rv=scene.revision), deleted=True)
    scene.book(alice, "a-stranger")
    assert scene.presence._anywhere == {}


class Store:
    """Stands for the hub: the books that it has, and answers that get lost."""

    def __init__(self) -> None:
        self.book: bytes | None = None
        self.editions: list[str] = []
        self.losing_answers = False
        self.during: list[Callable[[], None]] = []

    async def create(self, book: ConfigMap) -> ConfigMap:
        if self.book is not None:
            raise AlreadyExists(409, "AlreadyExists", "there is one")
        self._keep(book.binary_data["heard"], book.data)
        return book

    async def patch(self, _: Any, name: str, namespace: str, *, body: Any) -> ConfigMap:
        if self.book is None:
            raise NotFound(404, "NotFound", "there is none")
        self._keep(body["binaryData"]["heard"], body["data"])
        return ConfigMap.named(name, namespace)

    def _keep(self, content: bytes, data: dict[str, str]) -> None:
        self.book = content
        self.editions.append(data["edition"])
        while self.during:
            self.during.pop()()
        if self.losing_answers:
            raise Unreachable("the answer got lost")

    def heard(self) -> set[bytes]:
        return {who for who, _ in read_heartbeats(self.book or b"")}


def with_store() -> tuple[Scene, Store]:
    scene, store = Scene(), Store()
    scene.presence._client = store  # type: ignore[assignment]
    return scene, store


async def test_a_book_whose_making_was_not_confirmed_is_written_on() -> None:
    scene, store = with_store()
    store.losing_answers = True
    scene.presence.beat("alice")
    await scene.presence.flush()
    store.losing_answers = False
    scene.presence.beat("bob")
    await scene.presence.flush()
    assert store.heard() == {mark("alice"), mark("bob")}


async def test_who_is_heard_during_the_write_is_in_the_next_book() -> None:
    scene, store = with_store()
    scene.presence.beat("alice")
    store.during.append(lambda: scene.presence.beat("bob"))
    await scene.presence.flush()
    assert store.heard() == {mark("alice")}
    await scene.presence.flush()
    assert store.heard() == {mark("alice"), mark("bob")}


async def test_a_book_that_could_not_be_written_is_written_later() -> None:
    scene, store = with_store()
    store.losing_answers = True
    scene.presence.beat("alice")
    await scene.presence.flush()
    store.losing_answers, store.book = False, None
    await scene.presence.flush()
    assert store.heard() == {mark("alice")}


async def test_a_book_that_says_the_same_again_is_still_another_one() -> None:
    """The hub does not tell of a write that changes nothing."""
    scene, store = with_store()
    for _ in range(3):
        scene.presence.beat("alice")
        await scene.presence.flush()
    assert len(set(store.editions)) == 3
