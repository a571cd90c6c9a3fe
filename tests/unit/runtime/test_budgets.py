"""A rate with a burst per caller, whatever the number of callers."""

import pytest

from edgewise.runtime.budgets import Budgets


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_then_the_rate() -> None:
    clock = Clock()
    budgets = Budgets(per_second=10, burst=3, monotonic=clock)
    assert [budgets.spend("a") for _ in range(3)] == [0, 0, 0]
    assert budgets.spend("a") == pytest.approx(0.1)
    clock.now += 0.1
    assert budgets.spend("a") == 0
    assert budgets.spend("a") > 0


def test_coming_back_when_told_is_granted() -> None:
    clock = Clock()
    budgets = Budgets(per_second=3, burst=1, monotonic=clock)
    budgets.spend("a")
    for _ in range(1000):
        clock.now += budgets.spend("a")
        assert budgets.spend("a") == 0


def test_callers_do_not_share() -> None:
    budgets = Budgets(per_second=1, burst=1, monotonic=Clock())
    assert budgets.spend("a") == 0
    assert budgets.spend("a") > 0
    assert budgets.spend("b") == 0


def test_idle_callers_are_forgotten_and_busy_ones_are_not() -> None:
    clock = Clock()
    budgets = Budgets(per_second=1, burst=2, most_keys=3, monotonic=clock)
    for key in ("a", "b", "c"):
        budgets.spend(key)
    clock.now += 10
    for _ in range(2):
        budgets.spend("a")
    budgets.spend("new")
    assert len(budgets) == 2
    assert budgets.spend("a") > 0


def test_a_full_table_gives_newcomers_one_budget_together() -> None:
    clock = Clock()
    budgets = Budgets(per_second=1, burst=1, most_keys=100, monotonic=clock)
    granted = sum(budgets.spend(f"forged-{n}") == 0 for n in range(10_000))
    assert granted == 101
    assert len(budgets) == 101


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_budget_of_nothing_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="rate above 0"):
        Budgets(rate, burst)
