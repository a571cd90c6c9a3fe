"""The plan of a soak: the same seed is the same soak, and everything in it can happen."""

from __future__ import annotations

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
from edgewise.bench.soak.weighing import Held, Weight, growth

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


def test_growth_is_a_ratio_of_memory_and_a_difference_of_all_else() -> None:
    before = Weight(programs={"operator": Held(50.0, 20), "gone": Held(1, 1)}, routes=0, ports=1)
    after = Weight(programs={"operator": Held(55.0, 22), "new": Held(1, 1)}, routes=3, ports=1)
    assert growth(before, after) == {
        "memory": {"operator": 1.1},
        "descriptors": {"operator": 2},
        "routes": 3,
        "ports": 0,
    }
