"""Where a client goes, as a table of sentences."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.sessions.hub.choosing.ranking import Candidate, Obstacle, rank

NEAR_AND_FAR = {"near": 10.0, "far": 40.0}
BAD = "is degraded for demo"


def place(name: str, **fields: object) -> Candidate:
    return Candidate(name=name, **fields)  # type: ignore[arg-type]


CHOICES = {
    "the nearest of two empty places": (
        [place("near", capacity=10), place("far", capacity=10)], NEAR_AND_FAR, "near",
    ),
    "the nearest, while it is half full": (
        [place("near", capacity=10, clients=5), place("far", capacity=10)], NEAR_AND_FAR, "near",
    ),
    "the farther one, when the nearest is nearly full": (
        [place("near", capacity=10, clients=9), place("far", capacity=10)], NEAR_AND_FAR, "far",
    ),
    "the nearly full one, when the other is on another continent": (
        [place("near", capacity=10, clients=9), place("far", capacity=10)],
        {"near": 10.0, "far": 180.0},
        "near",
    ),
    "never a full one": (
        [place("near", capacity=10, clients=10), place("far")], {"near": 1.0, "far": 900.0}, "far",
    ),
    "never one that the queue will fill": (
        [place("near", capacity=10, clients=7, queued=3), place("far")],
        {"near": 1.0, "far": 900.0},
        "far",
    ),
    "never a cordoned one": (
        [place("near", cordoned=True), place("far")], {"near": 1.0, "far": 900.0}, "far",
    ),
    "never one that does not answer": (
        [place("near", trouble="has not answered for 7 s"), place("far")],
        {"near": 1.0, "far": 900.0},
        "far",
    ),
    "never one that the session does not allow": (
        [place("near", allowed=False), place("far")], {"near": 1.0, "far": 900.0}, "far",
    ),
    "never one with a capacity of nothing": (
        [place("near", capacity=0), place("far")], {"near": 1.0, "far": 900.0}, "far",
    ),
    "the farther one, when those who sit in the near one get no pods": (
        [place("near", waiting=4), place("far")], NEAR_AND_FAR, "far",
    ),
    "the farther one, when the near one is degraded": (
        [place("near", degraded=BAD), place("far")], {"near": 1.0, "far": 900.0}, "far",
    ),
    "the degraded one, when no other will do": (
        [place("near", degraded=BAD), place("far", trouble="is down")], NEAR_AND_FAR, "near",
    ),
    "the degraded one, when it is time for a trial": (
        [place("near", degraded=BAD, trial=True), place("far")], NEAR_AND_FAR, "near",
    ),
    "no trial, when another place is better anyway": (
        [place("near"), place("far", degraded=BAD, trial=True)], NEAR_AND_FAR, "near",
    ),
    "never one that has run out of ports": (
        [place("near", exhausted="is full: no public UDP port is free"), place("far")],
        NEAR_AND_FAR,
        "far",
    ),
    "a measured place before one that was not reached": (
        [place("near"), place("far")], {"far": 40.0}, "far",
    ),
    "a place that was not reached, when the only measured one is cordoned": (
        [place("near"), place("far", cordoned=True)], {"far": 40.0}, "near",
    ),
    "the less loaded one, when nothing was measured": (
        [place("a", capacity=10, clients=5), place("b", capacity=10, clients=4)], {}, "b",
    ),
    "the one with fewer clients, when no place has a bound": (
        [place("a", clients=5), place("b", clients=4)], {}, "b",
    ),
    "the first by name, when all is equal": ([place("b"), place("a")], {}, "a"),
    "as if nothing was measured, when only unknown places were": (
        [place("a", clients=1), place("b")], {"elsewhere": 1.0}, "b",
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CHOICES)
def test_the_choice_is(sentence: str) -> None:
    places, latencies, expected = CHOICES[sentence]
    ranking = rank(places, latencies)
    assert ranking.choices[0].name == expected
    assert ranking.choices[0].why.startswith(f"{expected}: ")


def test_the_reason_can_be_read() -> None:
    ranking = rank(
        [place("porto", capacity=10, clients=4), place("madrid", capacity=10), place("paris")],
        {"porto": 12.0, "madrid": 25.0},
    )
    assert [choice.why for choice in ranking.choices] == [
        "porto: 12 ms away, 4 of 10 clients (+8 ms); next best is madrid at 25 ms against 20 ms",
        "madrid: 25 ms away, 0 of 10 clients (+0 ms)",
        "paris: not measured, taken as 75 ms away, 0 clients, no bound",
    ]


def test_without_distances_there_is_nothing_to_compare() -> None:
    ranking = rank([place("paris"), place("porto")], {})
    assert ranking.choices[0].why == (
        "paris: no distance was measured, 0 clients, no bound; next best is porto"
    )


def test_the_reason_names_the_degraded_place_that_was_passed_over() -> None:
    places = [place("near", degraded=BAD), place("far"), place("farther")]
    latencies = {**NEAR_AND_FAR, "farther": 90.0}
    assert rank(places, latencies).choices[0].why == (
        "far: 40 ms away, 0 clients, no bound; next best is farther at 90 ms against 40 ms; "
        "near is degraded for demo"
    )
    # Not one that would not have been chosen anyway.
    far = rank([place("near"), place("far", degraded=BAD)], NEAR_AND_FAR)
    assert far.choices[0].why == "near: 10 ms away, 0 clients, no bound"


def test_who_goes_to_a_degraded_place_is_told() -> None:
    only = rank([place("near", degraded=BAD)], NEAR_AND_FAR, only="near").choices[0]
    assert only.why == "near: asked for, 10 ms away, 0 clients, no bound; it is degraded for demo"
    trial = rank([place("near", degraded=BAD, trial=True)], NEAR_AND_FAR).choices[0]
    assert trial.why == "near: 10 ms away, 0 clients, no bound; a trial: it is degraded for demo"
    assert (only.degraded, only.trial, trial.degraded, trial.trial) == (True, False, False, True)


def test_each_refusal_says_why() -> None:
    ranking = rank(
        [
            place("cold", cordoned=True),
            place("down", trouble="has not answered for 7 s"),
            place("full", capacity=3, clients=2, queued=1),
            place("other", allowed=False),
        ],
        {},
    )
    assert ranking.choices == []
    assert ranking.full
    assert ranking.why_not == (
        "cold is cordoned and takes no new clients; down has not answered for 7 s; "
        "full is full (2 of 3 clients and 1 wait for it)"
    )


@pytest.mark.parametrize(
    ("places", "full"),
    [
        ([], False),
        ([place("a", cordoned=True)], False),
        ([place("a", trouble="is down")], False),
        ([place("a", capacity=1, clients=1)], True),
        ([place("a", capacity=1, clients=1), place("b", trouble="is down")], True),
        ([place("a", capacity=1, clients=1), place("b")], False),
        ([place("a", exhausted="has no port")], True),
    ],
)
def test_waiting_makes_sense_only_where_people_stand_in_the_way(places, full) -> None:
    assert rank(places, {}).full is full


def test_a_place_that_was_asked_for_is_the_only_one_considered() -> None:
    places = [place("near"), place("far", capacity=2, clients=1)]
    ranking = rank(places, NEAR_AND_FAR, only="far")
    assert [choice.name for choice in ranking.choices] == ["far"]
    assert ranking.choices[0].why == "far: asked for, 40 ms away, 1 of 2 clients (+12 ms)"


def test_asking_for_a_place_that_cannot_be_had() -> None:
    places = [place("near"), place("far", capacity=1, clients=1)]
    assert rank(places, {}, only="far").refused["far"].obstacle is Obstacle.FULL
    assert rank(places, {}, only="mars").refused["mars"].obstacle is Obstacle.UNKNOWN


PLACES = st.lists(
    st.builds(
        Candidate,
        name=st.sampled_from("abcdefgh"),
        clients=st.integers(0, 50),
        queued=st.integers(0, 5),
        waiting=st.integers(0, 50),
        capacity=st.none() | st.integers(0, 50),
        cordoned=st.booleans(),
        trouble=st.sampled_from(["", "is down"]),
        allowed=st.booleans(),
        degraded=st.sampled_from(["", BAD]),
        trial=st.booleans(),
        exhausted=st.sampled_from(["", "has no port"]),
    ),
    unique_by=lambda place: place.name,
)
LATENCIES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 10_000))


@given(PLACES, LATENCIES)
def test_every_place_is_either_chosen_or_refused_and_costs_are_ordered(places, latencies) -> None:
    ranking = rank(places, latencies)
    chosen = [choice.name for choice in ranking.choices]
    assert sorted([*chosen, *ranking.refused]) == sorted(place.name for place in places)
    costs = [(choice.degraded, choice.cost_ms) for choice in ranking.choices]
    assert costs == sorted(costs)
    assert all(math.isfinite(cost) for _, cost in costs)


@given(PLACES, LATENCIES, st.sampled_from("abcdefgh"))
def test_more_clients_never_make_a_place_better(places, latencies, name) -> None:
    before = [choice.name for choice in rank(places, latencies).choices]
    busier = [
        place
        if place.name != name
        else Candidate(**{**fields(place), "clients": place.clients + 1})
        for place in places
    ]
    after = [choice.name for choice in rank(busier, latencies).choices]
    if name in before and name in after:
        assert after.index(name) >= before.index(name)
    assert name in before or name not in after


def fields(place: Candidate) -> dict:
    return {field: getattr(place, field) for field in place.__struct_fields__}
