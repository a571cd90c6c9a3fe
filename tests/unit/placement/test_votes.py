"""Votes by rows, and under lies."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.api.placement import MinImprovement
from edgewise.placement.ranking import improves
from edgewise.placement.votes import Ballot, percentile

NOW = 1_000.0


def ballot(*votes: tuple[str, float, float]) -> Ballot:
    made = Ballot()
    for client, rtt, at in votes:
        made.cast(client, rtt, at=at, period=1.0)
    return made


ROWS = {
    "one vote": ([("a", 20.0, NOW)], 20.0),
    "two of one client in one T_O are one vote, their mean": (
        [("a", 10.0, NOW), ("a", 30.0, NOW + 0.5), ("b", 40.0, NOW)],
        30.0,
    ),
    "the median of three clients": ([("a", 1, NOW), ("b", 20, NOW), ("c", 900, NOW)], 20.0),
    "the mean of the middle ones of four": (
        [("a", 1, NOW), ("b", 20, NOW), ("c", 30, NOW), ("d", 900, NOW)],
        25.0,
    ),
    "many votes of one client are one client": (
        [("a", 500.0, NOW - n) for n in range(10)] + [("b", 10.0, NOW), ("c", 11.0, NOW)],
        11.0,
    ),
    "a vote of one half-life ago counts half": (
        [("a", 40, NOW - 2), ("a", 40, NOW - 4), ("a", 10, NOW)],
        10.0,
    ),
    "one bad second does not outvote those before it": (
        [("a", 10, NOW - n) for n in range(1, 5)] + [("a", 130, NOW)],
        10.0,
    ),
    "a clock that was set back by hours": (
        [("a", 90, NOW + 9_000), ("a", 10, NOW - 1), ("a", 10, NOW)],
        10.0,
    ),
    "what lasts is believed": (
        [("a", 10, NOW - n) for n in range(2, 6)] + [("a", 130, NOW - 1), ("a", 130, NOW)],
        130.0,
    ),
}


@pytest.mark.parametrize("sentence", ROWS)
def test_what_votes_come_to(sentence: str) -> None:
    votes, value = ROWS[sentence]
    tally = ballot(*votes).tally(NOW, half_life=2.0, min_clients=1)
    assert tally is not None
    assert tally.rtt_ms == pytest.approx(value)


# Votes; what they come to if one of two may be late, and whether that hangs on a single one.
LEAST = {
    "one vote": ([("a", 90, NOW)], 90.0, False),
    "two of one T_O are one vote": ([("a", 90, NOW), ("a", 10, NOW + 0.5)], 50.0, False),
    "the better one of two": ([("a", 10, NOW - 1), ("a", 90, NOW)], 10.0, True),
    "what was before them counts no more": (
        [("a", 10, NOW - 2), ("a", 90, NOW - 1), ("a", 90, NOW)],
        90.0,
        True,
    ),
    "two clients with one vote each": ([("a", 10, NOW), ("b", 90, NOW)], 50.0, False),
    "three clients with one vote each": (
        [("a", 10, NOW), ("b", 90, NOW), ("c", 12, NOW)],
        12.0,
        True,
    ),
}


@pytest.mark.parametrize("sentence", LEAST)
def test_one_late_vote_of_two_does_not_count(sentence: str) -> None:
    votes, least, settled = LEAST[sentence]
    tally = ballot(*votes).tally(NOW, half_life=2.0, min_clients=1)
    assert tally is not None
    assert (tally.least_ms, tally.settled) == (least, settled)


def test_too_few_clients_are_no_value() -> None:
    assert ballot(("a", 1, NOW)).tally(NOW, half_life=2, min_clients=2) is None


def test_old_votes_are_forgotten_with_their_client() -> None:
    made = ballot(("a", 1, NOW))
    assert made.tally(NOW + 30, half_life=2, min_clients=1) is None
    assert len(made) == 0


def test_the_p95_is_that_of_the_newest_votes() -> None:
    assert percentile(range(1, 101), 95) == 95
    assert percentile([7.0], 95) == 7.0


@given(
    honest=st.lists(st.floats(1, 500), min_size=1, max_size=30),
    lies=st.lists(st.floats(0.01, 10_000), max_size=29),
)
def test_fewer_than_half_cannot_leave_the_range_of_the_honest(
    honest: list[float], lies: list[float]
) -> None:
    lies = lies[: len(honest) - 1]
    votes = [(f"h{n}", rtt, NOW) for n, rtt in enumerate(honest)]
    votes += [(f"l{n}", rtt, NOW) for n, rtt in enumerate(lies)]
    tally = ballot(*votes).tally(NOW, half_life=2, min_clients=1)
    assert tally is not None
    assert min(honest) - 1e-6 <= tally.rtt_ms <= max(honest) + 1e-6


def test_with_40_percent_liars_the_order_of_the_nodes_stays() -> None:
    random = Random(7)
    truth = [0.5, 10, 25, 50, 75, 100, 150, 200, 300, 500]
    ranked = []
    for rtt in truth:
        made = Ballot()
        for client in range(60):
            made.cast(f"h{client}", max(0.1, random.gauss(rtt, rtt / 20)), at=NOW, period=1.0)
        for client in range(40):
            # Each calls the far near, and the near far.
            made.cast(f"l{client}", 501 - rtt, at=NOW, period=1.0)
        tally = made.tally(NOW, half_life=2, min_clients=1)
        assert tally is not None
        ranked.append(tally.rtt_ms)
    assert ranked == sorted(ranked)


@pytest.mark.parametrize(
    ("new", "old", "moves"),
    [
        (95, 100, False),  # 5 percent
        (90, 100, True),
        (10, 14, False),  # 4 ms
        (5, 10, True),
        (10, 10, False),
        (20, 10, False),
    ],
)
def test_better_is_by_milliseconds_and_by_percent(new: float, old: float, moves: bool) -> None:
    assert improves(new, old, MinImprovement()) is moves
