"""Who took a seat first, seen by several replicas that hear of it at different times."""

import asyncio
import random

import pytest

from edgewise.sessions.hub.choosing import ledger as ledger_module
from edgewise.sessions.hub.choosing.ledger import Before, Ledger
from tests.unit.sessions.hub.bindings import Hubs, binding


def test_seats_are_counted_as_they_come_and_go() -> None:
    hubs = Hubs(1)
    ledger = Ledger(hubs.caches[0])
    hubs.write(binding("a", "porto"))
    hubs.write(binding("b", "porto"))
    hubs.write(binding("c"))
    hubs.show(0)
    assert ledger.seated("porto") == 2
    assert [each.spec.client for each in ledger.queued()] == ["c"]
    hubs.write(binding("b", "paris"))
    hubs.write(binding("c", "porto"))
    hubs.write(binding("a", "porto"), deleted=True)
    hubs.show(0)
    assert (ledger.seated("porto"), ledger.seated("paris"), ledger.queued()) == (1, 1, [])


def test_a_seat_counts_while_it_is_being_taken() -> None:
    ledger = Ledger(Hubs(1).caches[0])
    with ledger.claiming("porto", "room"):
        assert ledger.seated("porto") == 1
        assert ledger.sessions_in("porto") == {"room": 1}
    assert ledger.seated("porto") == 0
    assert ledger.sessions_in("porto") == {}


def test_it_is_known_of_which_sessions_they_are() -> None:
    hubs = Hubs(1)
    ledger = Ledger(hubs.caches[0])
    hubs.write(binding("a", "porto"))
    hubs.write(binding("b", "porto"))
    hubs.show(0)
    (session,) = ledger.sessions_in("porto")
    with ledger.claiming("porto", session):
        assert ledger.sessions_in("porto") == {session: 3}
    hubs.write(binding("a", "porto"), deleted=True)
    hubs.write(binding("b", "paris"))
    hubs.show(0)
    assert (ledger.sessions_in("porto"), ledger.sessions_in("paris")) == ({}, {session: 1})


async def test_the_last_seat_goes_to_exactly_one_whatever_is_seen_when() -> None:
    """Every replica may hear of everything before or after it asks."""
    for heard_early in (False, True):
        hubs = Hubs(3)
        ledgers = [Ledger(cache) for cache in hubs.caches]
        mine = [hubs.write(binding(f"client-{n}", "porto")) for n in range(3)]
        if heard_early:
            for n in range(3):
                hubs.show(n)
        asking = [
            asyncio.create_task(ledger.before(claim))
            for ledger, claim in zip(ledgers, mine, strict=True)
        ]
        await asyncio.sleep(0)
        for n in random.Random(7).sample(range(3), 3):
            hubs.show(n)
        before = await asyncio.gather(*asking)
        assert [each.in_cluster for each in before if each] == [0, 1, 2]


async def test_any_interleaving_gives_every_seat_once() -> None:
    chance = random.Random(11)
    for _ in range(100):
        replicas, capacity, claims = 3, chance.randint(1, 4), 8
        hubs = Hubs(replicas)
        ledgers = [Ledger(cache) for cache in hubs.caches]
        asking = []
        for n in range(claims):
            claim = hubs.write(binding(f"c{n}", "porto"))
            replica = chance.randrange(replicas)
            if chance.random() < 0.5:
                hubs.show(replica, chance.randint(0, len(hubs.log)))
            asking.append(asyncio.create_task(ledgers[replica].before(claim)))
            await asyncio.sleep(0)
        for n in range(replicas):
            hubs.show(n)
        before = await asyncio.gather(*asking)
        assert sum(1 for each in before if each and each.in_cluster < capacity) == capacity


async def test_a_renewed_binding_keeps_its_rank() -> None:
    hubs = Hubs(1)
    ledger = Ledger(hubs.caches[0])
    first = hubs.write(binding("a", "porto"))
    hubs.write(binding("b", "porto"))
    hubs.write(binding("a", "porto", moves=1))
    hubs.show(0)
    assert await ledger.before(first) == Before(in_cluster=0, in_session=0)


async def test_who_was_moved_or_removed_meanwhile_has_no_seat_there() -> None:
    hubs = Hubs(1)
    ledger = Ledger(hubs.caches[0])
    moved, removed = hubs.write(binding("a", "porto")), hubs.write(binding("b", "porto"))
    hubs.write(binding("a", "paris"))
    hubs.write(binding("b", "porto"), deleted=True)
    hubs.show(0)
    assert await ledger.before(moved) is None
    assert await ledger.before(removed) is None


async def test_a_hub_that_shows_nothing_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger_module, "LONGEST_WAIT_SECONDS", 0.01)
    hubs = Hubs(1)
    claim = hubs.write(binding("a", "porto"))
    assert await Ledger(hubs.caches[0]).before(claim) is None


async def test_a_complete_list_does_not_tell_who_came_first() -> None:
    hubs = Hubs(1)
    ledger = Ledger(hubs.caches[0])
    first, second = hubs.write(binding("a", "porto")), hubs.write(binding("b", "porto"))
    hubs.caches[0].replace([first, second], "2")
    assert ledger.seated("porto") == 2
    assert await ledger.before(first) is None
