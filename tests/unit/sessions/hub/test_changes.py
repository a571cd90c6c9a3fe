"""Whoever comes back misses nothing, whichever replica answers."""

import asyncio
import random

import pytest

from edgewise.api.global_sessions import ClientBinding
from edgewise.sessions.hub.changes import (
    BadPosition,
    Changes,
    Position,
    Scope,
    Thing,
    read_position,
    write_position,
)
from tests.unit.sessions.hub.bindings import Hubs, binding


def touched(old: ClientBinding | None, new: ClientBinding | None) -> list[Thing]:
    spec = (new or old).spec  # type: ignore[union-attr]
    return [Thing("client", spec.session, spec.client)]


def replicas(count: int, remembered: int = 1000) -> tuple[Hubs, list[Changes]]:
    hubs = Hubs(count)
    all_changes = [Changes(remembered) for _ in range(count)]
    for changes, cache in zip(all_changes, hubs.caches, strict=True):
        changes.follow("b", cache, touched)
    return hubs, all_changes


def names(things: list[Thing] | None) -> list[str] | None:
    return None if things is None else [thing.client for thing in things]


def test_a_place_survives_being_written_down() -> None:
    place: Position = {"b": 12, "s/porto": 7}
    assert read_position(write_position(place)) == place


@pytest.mark.parametrize("text", ["", "b", "b:", ":1", "b:x", "b:-1", "b:1,,", "b:²", "x" * 5000])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(BadPosition):
        read_position(text)


def test_a_watcher_is_told_each_thing_once() -> None:
    hubs, (changes,) = replicas(1)
    with changes.subscribe(("room-1",)) as watcher:
        for _ in range(3):
            hubs.write(binding("alice", "porto"))
        hubs.write(binding("bob", "porto", session="room-2"))
        hubs.show(0)
        assert names(watcher.take()) == ["alice"]
        assert watcher.take() == []


def test_each_scope_hears_its_own() -> None:
    changes = Changes()
    scopes: dict[Scope, list[str]] = {
        (): ["client", "session", "location"],
        ("room-1",): ["client", "session"],
        ("room-1", "alice"): ["client", "session"],
        ("room-1", "bob"): ["session"],
        ("room-2",): [],
        ("room-2", "alice"): [],
    }
    for scope, heard in scopes.items():
        with changes.subscribe(scope) as watcher:
            changes.note(Thing("client", "room-1", "alice"))
            changes.note(Thing("session", "room-1"))
            changes.note(Thing("location", "porto"))
            assert [thing.kind for thing in watcher.take()] == heard


def test_what_only_this_replica_saw_is_told_again_to_whoever_comes_back() -> None:
    hubs, (changes,) = replicas(1, remembered=3)
    hubs.write(binding("alice", "porto"))
    hubs.show(0)
    place = dict(changes.place)
    assert changes.since(place, ("room-1",)) == []
    for client in ("alice", "bob", "alice"):
        changes.note(Thing("client", "room-1", client))
    changes.note(Thing("location", "porto"))
    assert names(changes.since(place, ("room-1",))) == ["bob", "alice"]
    assert names(changes.since(place, ("room-1", "bob"))) == ["bob"]
    for number in range(5):  # and it is bounded
        changes.note(Thing("client", "room-1", f"c-{number}"))
    assert names(changes.since(place, ("room-1",))) == ["c-2", "c-3", "c-4"]


def test_coming_back_to_another_replica() -> None:
    hubs, (first, second) = replicas(2)
    hubs.write(binding("alice", "porto"))
    hubs.show(0)
    left_at = read_position(write_position(first.place))
    hubs.write(binding("bob", "porto"))
    hubs.write(binding("alice", "porto"), deleted=True)
    hubs.show(1)
    assert names(second.since(left_at, ())) == ["bob", "alice"]
    assert names(second.since(left_at, ("room-1", "bob"))) == ["bob"]


async def test_a_replica_that_is_behind_waits_before_it_speaks() -> None:
    hubs, (first, second) = replicas(2)
    hubs.write(binding("alice", "porto"))
    hubs.show(0)
    left_at = dict(first.place)
    assert second.since(left_at, ()) is None
    waiting = asyncio.create_task(second.caught_up(left_at, 10))
    await asyncio.sleep(0)
    assert not waiting.done()
    hubs.show(1)
    assert await waiting
    assert second.since(left_at, ()) == []


async def test_a_place_from_a_future_that_never_comes_is_not_waited_for() -> None:
    _, (changes,) = replicas(1)
    assert not await changes.caught_up({"b": 99}, 0.01)
    assert changes.since({"b": 99}, ()) is None


def test_what_is_forgotten_is_admitted() -> None:
    hubs, (changes,) = replicas(1, remembered=2)
    places = []
    for client in ("a", "b", "c", "d"):
        hubs.write(binding(client, "porto"))
        hubs.show(0)
        places.append(dict(changes.place))
    assert changes.since(places[0], ()) is None
    assert names(changes.since(places[1], ())) == ["c", "d"]


def test_a_source_that_the_caller_never_saw_means_a_full_picture() -> None:
    hubs, (changes,) = replicas(1)
    left_at = dict(changes.place)
    changes.follow("s/new", Hubs(1).caches[0], touched)
    hubs.show(0)
    assert changes.since(left_at, ()) is None


def test_random_watchers_always_end_with_the_truth() -> None:
    """Disconnect anywhere, come back anywhere: what one knows is what is."""
    chance = random.Random(5)
    for _ in range(50):
        hubs, all_changes = replicas(2, remembered=chance.choice([3, 1000]))
        known: dict[str, str] = {}
        place: Position | None = None
        for _ in range(30):
            client = chance.choice("abcdef")
            gone = chance.random() < 0.3
            hubs.write(binding(client, chance.choice(["porto", "paris"])), deleted=gone)
            if chance.random() < 0.4:
                continue
            replica = chance.randrange(2)
            hubs.show(replica)
            place = look(hubs, all_changes[replica], replica, place, known)
        hubs.show(0)
        look(hubs, all_changes[0], 0, place, known)
        truth = {each.spec.client: each.spec.location for each in hubs.caches[0]}
        assert known == truth


def look(
    hubs: Hubs, changes: Changes, replica: int, place: Position | None, known: dict
) -> Position:
    now = {each.spec.client: each.spec.location for each in hubs.caches[replica]}
    since = changes.since(place, ()) if place is not None else None
    if since is None:
        known.clear()
        known.update(now)
    else:
        for thing in since:
            if thing.client in now:
                known[thing.client] = now[thing.client]
            else:
                known.pop(thing.client, None)
    return dict(changes.place)
