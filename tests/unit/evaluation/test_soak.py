"""The plan of a soak: the same seed is the same soak, and everything in it can happen."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.bench.soak.plan import (
    CLIENTS,
    OURS,
    TEN_MINUTES,
    TROUBLES,
    Act,
    Do,
    planned,
)
from edgewise.bench.soak.weighing import Held, Weight, growth, weight_at_rest

HOUR = 3600.0


def test_the_same_seed_is_the_same_soak_and_another_seed_is_not() -> None:
    assert planned(7, HOUR) == planned(7, HOUR)
    assert planned(7, HOUR) != planned(8, HOUR)


@given(st.integers(0, 10_000), st.floats(30, 2 * HOUR))
def test_nobody_leaves_who_has_not_come_and_every_trouble_comes(seed: int, seconds: float) -> None:
    acts = planned(seed, seconds)
    assert sum(act.seconds for act in acts) == pytest.approx(seconds)
    for act in acts:
        assert all(0 <= step.at <= act.seconds for step in act.steps)
        assert [step.at for step in act.steps] == sorted(step.at for step in act.steps)
        check_people(act)
    assert {step.do for step in acts[1].steps} >= TROUBLES.keys()
    assert {step.do for step in acts[0].steps}.isdisjoint(OURS)


def check_people(act: Act) -> None:
    there: dict[str, dict[str, bool]] = {}
    for step in act.steps:
        clients = there.setdefault(step.session, {})
        match step.do:
            case Do.JOIN:
                assert step.client not in clients
                clients[step.client] = True
                assert len(clients) <= CLIENTS
            case Do.LEAVE:
                del clients[step.client]
            case Do.LOSE | Do.RETURN:
                assert clients[step.client] is (step.do is Do.LOSE)
                clients[step.client] = step.do is Do.RETURN
            case Do.DELETE_SESSION:
                clients.clear()
            case trouble:
                assert trouble in TROUBLES
                assert 0 <= step.chance < 1


def test_the_second_weighing_is_after_ten_minutes_or_a_sixth() -> None:
    assert planned(1, HOUR)[0].seconds == planned(1, 4 * HOUR)[0].seconds == TEN_MINUTES
    assert planned(1, 120)[0].seconds == 20


def test_programs_that_are_weighed_in_the_end_have_run_for_a_while() -> None:
    act = planned(1, HOUR)[1]
    last = max(step.at for step in act.steps if step.do in OURS)
    assert last <= 0.55 * act.seconds


def weight(routes: int = 0, ports: int = 0, **programs: Held) -> Weight:
    return Weight(programs=programs, routes=routes, ports=ports)


def test_growth_is_a_ratio_of_memory_and_a_difference_of_all_else() -> None:
    before = weight(ports=1, operator=Held(50.0, 20, {"tcp": 19, "pipe": 1}), gone=Held(1, 1))
    after = weight(3, 1, operator=Held(55.0, 22, {"tcp": 19, "file": 3}), new=Held(1, 1))
    assert growth(before, after) == {
        "memory": {"operator": 1.1},
        "descriptors": {"operator": 2},
        "kinds": {"operator": {"file": 3, "pipe": -1}},
        "routes": 3,
        "ports": 0,
    }


async def test_what_is_weighed_has_nobody_to_serve_no_garbage_and_no_idle_connection() -> None:
    routes = iter([2, 1, 0, 0])
    happened: list[tuple[str, float]] = []

    async def look() -> Weight:
        found = weight(next(routes))
        happened.append((f"{found.routes} routes", time.monotonic()))
        return found

    async def collect() -> None:
        happened.append(("collect", time.monotonic()))

    found = await weight_at_rest(look, collect, settle_seconds=60, idle_seconds=0.2)
    assert found.routes == 0
    assert [what for what, _ in happened] == [
        "2 routes",
        "1 routes",
        "0 routes",
        "collect",
        "0 routes",
    ]
    idle = happened[3][1] - happened[2][1]
    assert idle >= 0.2


async def test_routes_that_stay_are_told_and_not_waited_for() -> None:
    async def look() -> Weight:
        return weight(1)

    async def collect() -> None:
        """There is none."""

    found = await weight_at_rest(look, collect, settle_seconds=0, idle_seconds=0)
    assert found.routes == 1
