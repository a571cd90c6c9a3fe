"""The sample game: its rules, and a match over real datagrams."""

from __future__ import annotations

import asyncio
from random import Random

from coin_rush.client import play
from coin_rush.server import Match
from coin_rush.server import play as tick
from coin_rush.world import COINS, SIZE, World, way_to

from edgewise.testing.eventually import eventually


def test_a_player_who_steps_on_a_coin_has_it_and_another_one_appears() -> None:
    world = World(dice=Random(1))
    world.join("ann")
    world.players["ann"], world.coins = (0, 0), {(1, 0)}
    world.scatter()
    world.move("ann", "right")
    assert world.scores["ann"] == 1
    assert len(world.coins) == COINS


def test_nobody_leaves_the_board_and_who_is_not_there_does_not_move() -> None:
    world = World(dice=Random(1))
    world.join("ann")
    for way in ("up", "left", "sideways"):
        for _ in range(SIZE + 1):
            world.move("ann", way)
    assert world.players["ann"] == (0, 0)
    world.move("bob", "up")
    world.leave("ann")
    assert (world.players, world.scores) == ({}, {})


def test_the_player_goes_for_the_nearest_coin() -> None:
    assert way_to((5, 5), [(9, 9), (5, 6)]) == "down"
    assert way_to((5, 5), [(4, 5)]) == "left"
    assert way_to((5, 5), []) == "up"


async def test_a_match_over_datagrams() -> None:
    match = Match()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: match, local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    running = asyncio.create_task(tick(match))
    try:
        ann, bob = await asyncio.gather(
            play("127.0.0.1", port, "ann", 1.0), play("127.0.0.1", port, "bob", 1.0)
        )
        assert (ann.code, bob.code) == (0, 0)
        assert min(ann.boards, bob.boards) > 3
        for nonsense in (b"", b"[", b"[]", b'{"join": 5}', b'{"move": "up"}', b"\xff" * 2000):
            match.datagram_received(nonsense, ("127.0.0.1", 9))
        await eventually(lambda: not match.names, within=5)
        match.ending = "Deleted"
        late = await play("127.0.0.1", port, "cleo", 5.0)
        assert (late.code, late.problem) == (5, "the server takes no more players")
    finally:
        running.cancel()
        transport.close()


async def test_where_nobody_answers_it_says_so() -> None:
    report = await play("127.0.0.1", 9, "ann", 0.5)
    assert (report.code, report.problem) == (3, "nobody answered")
