"""Each server has one match and each match one server, in all orders of requests and crashes."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.gameservers.allocation.world import Told, World

MATCHES = ("m0", "m1")
# Mostly what happens all the time: calls, requests, changes that are shown; now and then trouble.
WHAT = st.sampled_from([0] * 4 + [2] * 8 + [8] * 5 + [5, 6, 7, 10, 10, 10, 11, 12, 12, 13])
STEPS = st.lists(st.tuples(WHAT, st.sampled_from([0, 1, 0, 1, 2, 3, 4, 5, 6, 7])), max_size=60)


# The same with games that have to acknowledge, which they do, or not in time.
WITH_GAMES = st.lists(
    st.tuples(st.one_of(WHAT, st.sampled_from([14, 14, 14, 15, 15, 16])), st.integers(0, 7)),
    max_size=60,
)


# One server for two matches, and calls that wait in the line for it. Nobody removes it.
WITH_A_LINE = st.lists(
    st.tuples(
        st.sampled_from([0] * 2 + [2] * 8 + [8] * 5 + [5, 6, 7, 10, 10, 11, 17, 17, 17, 18, 18]),
        st.integers(0, 7),
    ),
    max_size=60,
)


async def play(steps: list[tuple[int, int]], world: World) -> None:
    for what, number in steps:
        replica = world.replicas[number % 2]
        match = MATCHES[number // 2 % 2]
        pending = world.pending[number % len(world.pending)] if world.pending else None
        if what in (0, 1):
            replica.call(match)
        elif what in (2, 3, 4) and pending is not None:
            world.carry_out(pending)
        elif what == 5 and pending is not None:
            world.carry_out(pending, lost=True)
        elif what == 6 and pending is not None:
            world.carry_out(pending, crash=True)
        elif what == 7 and number < 4:
            replica.crash()
        elif what in (8, 9):
            replica.show(1 if number < 4 else 10_000)
        elif what == 10:
            world.release(match) if number < 4 else replica.relist()
        elif what == 11:
            replica.clean()
        elif what == 12:
            operate(world, number)
        elif what == 13:
            world.operator.start()
        else:
            games_and_lines(world, what, number)
        await world.pause()


def games_and_lines(world: World, what: int, number: int) -> None:
    replica = world.replicas[number % 2]
    if what == 17:
        replica.call(MATCHES[number // 2 % 2], wait=60)
    elif what == 18:
        replica.serve()
    elif what == 14:
        world.acknowledge(number)
    elif what == 15:
        replica.hear()
    elif what == 16:
        replica.matches.time_up()


def operate(world: World, number: int) -> None:
    if number < 3:
        world.operator.retire(number, lost=number == 2)
    elif number < 6:
        world.operator.show(1 if number < 5 else 10_000)
    else:
        world.operator.remove()


def valid(told: Told, world: World) -> bool:
    """Whether at some moment between question and answer this was what the match had."""
    life = world.api.lives[told.uid]
    earlier = [
        world.api.lives[each.uid]
        for each in world.told
        if each.match == told.match and world.api.lives[each.uid].born < life.born
    ]
    first, last = max(told.asked, life.born), min(float(told.answered), life.died - 1)
    moments = range(first, int(last) + 1)
    return any(not any(one.born <= at < one.died for one in earlier) for at in moments)


async def check(steps: list[tuple[int, int]], acknowledge: str = "0s") -> None:
    world = World(servers=4, replicas=2, acknowledge=acknowledge)
    await play(steps, world)
    await world.settle(answering=False)
    for told in world.told:
        life = world.api.lives[told.uid]
        assert told.known, f"{told} was told before its game acknowledged it"
        assert not life.dropped, f"{told} was told, and dropped"
        assert valid(told, world), f"{told} was not what the match had"
    world.operator.remove()
    assert_none_removed(world)
    # Then the leader looks, and every match is asked for once more.
    for replica in world.replicas:
        replica.clean()
        await world.settle()
    before = len(world.told)
    for match in MATCHES:
        for replica in world.replicas:
            replica.call(match)
    await world.settle()
    answers = {
        match: {each.uid for each in world.told[before:] if each.match == match}
        for match in MATCHES
    }
    assert_none_removed(world)
    left = Counter(each.spec.match for each in world.counting())
    for match in MATCHES:
        assert len(answers[match]) == 1, answers
        assert left[match] == 1, world.api.objects
    assert {each.metadata.uid for each in world.counting()} == set().union(*answers.values())


def assert_none_removed(world: World) -> None:
    """No server went while a match had it, of which somebody was told."""
    for told in world.told:
        life = world.api.lives[told.uid]
        removed = world.operator.removed.get(life.server)
        assert removed is None or life.died <= removed, f"{told}: {life.server} was removed"


@settings(max_examples=250)
@given(steps=STEPS)
# Both replicas create for one match, and see it only afterwards.
@example(steps=[(0, 0), (0, 1), (2, 0), (2, 0), (8, 4), (8, 5)])
# A replica dies with its creation carried out, and another one has to list anew.
@example(steps=[(0, 0), (6, 0), (10, 5), (0, 1)])
# The first is told and released, while the replica of the second is about to drop it; then the
# second is made sure of, before the drop arrives.
@example(
    steps=[
        *[(0, 0), (2, 0), (0, 1), (2, 0), (8, 0), (10, 0), (8, 1), (8, 1)],
        *[(8, 4), (0, 0), (2, 1), (2, 0)],
    ]
)
# The first is changed (made sure of), which must not make it the later one of two.
@example(steps=[(0, 0), (2, 0), (0, 1), (2, 0), (8, 0), (0, 0), (2, 0), (8, 5)])
# A list and an Allocation of one of its servers: whichever is earlier counts.
@example(steps=[(0, 0), (12, 0), (2, 0), (8, 4), (12, 5), (12, 6)])
@example(steps=[(0, 0), (2, 0), (8, 4), (12, 0), (12, 5), (12, 6)])
# The same, with a replica that dies after it came too late.
@example(steps=[(0, 0), (0, 2), (12, 1), (6, 0), (2, 0), (8, 5), (12, 5), (12, 6), (0, 1)])
def test_whatever_happens_a_match_has_one_server(steps: list[tuple[int, int]]) -> None:
    asyncio.run(check(steps))


@settings(max_examples=100)
@given(steps=WITH_GAMES)
# Its game is heard by one replica only, which answers; then the other one's time is up.
@example(
    steps=[
        *[(0, 0), (2, 0), (8, 4), (8, 5), (0, 1), (2, 0), (14, 1), (14, 3)],
        *[(15, 0), (2, 0), (16, 1), (2, 0), (2, 0)],
    ]
)
# The same, and the other one was about to drop it before.
@example(
    steps=[
        *[(0, 0), (2, 0), (8, 4), (8, 5), (0, 1), (2, 0), (14, 1), (14, 3)],
        *[(16, 1), (2, 0), (15, 0), (2, 1), (2, 1), (2, 0)],
    ]
)
# A replica dies after its creation; the game acknowledges what nobody waits for any more.
@example(steps=[(0, 0), (6, 0), (14, 1), (14, 3), (8, 5), (0, 1), (2, 0), (15, 1), (11, 1)])
def test_nobody_is_told_of_a_server_before_its_game_has_acknowledged_the_match(
    steps: list[tuple[int, int]],
) -> None:
    asyncio.run(check(steps, acknowledge="10s"))


async def check_line(steps: list[tuple[int, int]]) -> None:
    world = World(servers=1, replicas=2)
    await play(steps, world)
    await world.settle()
    # Then both matches are asked for until they had the server, one after the other.
    had = Counter[str]()
    for _ in MATCHES:
        for _ in range(2):  # the second time who waited is told what it got
            for match in MATCHES:
                for replica in world.replicas:
                    replica.call(match, wait=60)
            await world.settle()
            for replica in world.replicas:
                replica.serve()
            await world.settle()
        (taken,) = (each for each in world.counting() if each.spec.waiting is None)
        assert taken.metadata.uid in {each.uid for each in world.told}
        had[taken.spec.match] += 1
        world.release(taken.spec.match)
        await world.settle()
        for replica in world.replicas:
            replica.clean()
            await world.settle()
        if len(had) < len(MATCHES):
            assert [each.spec.match for each in world.counting()] == [*{*MATCHES} - {*had}]
    assert set(had) == set(MATCHES), "who waits first is served first"
    for told in world.told:
        assert not world.api.lives[told.uid].dropped, f"{told} was told, and dropped"
        assert valid(told, world), f"{told} was not what the match had"


@settings(max_examples=100)
@given(steps=WITH_A_LINE)
# One waits, the other one leaves, and two think that they lead and serve the same place.
@example(
    steps=[
        *[(17, 0), (2, 0), (8, 4), (8, 5), (17, 2), (2, 0), (8, 4), (8, 5), (10, 0), (8, 4)],
        *[(8, 5), (18, 0), (18, 1), (2, 1), (2, 0), (8, 4), (8, 5), (2, 0)],
    ]
)
# The one that leads dies after it has taken the server for who waits.
@example(
    steps=[
        *[(17, 0), (2, 0), (8, 4), (8, 5), (17, 2), (2, 0), (8, 4), (8, 5), (10, 0), (8, 4)],
        *[(8, 5), (18, 0), (6, 0), (17, 3)],
    ]
)
def test_who_waits_in_the_line_has_the_server_next_and_leaves_the_line(
    steps: list[tuple[int, int]],
) -> None:
    asyncio.run(check_line(steps))
