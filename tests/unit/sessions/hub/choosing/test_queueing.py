"""The queue for full locations, as a table of sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.sessions.hub.choosing.queueing import Waiting, plan_queue
from edgewise.sessions.hub.choosing.ranking import Candidate

NOW = 1000.0


def waiting(id: str, since: float = 0.0, until: float = 2000.0, **fields: object) -> Waiting:
    return Waiting(id=id, since=since, until=until, **fields)  # type: ignore[arg-type]


def room(name: str, free: int = 1, **fields: object) -> Candidate:
    return Candidate(name=name, capacity=10, clients=10 - free, **fields)  # type: ignore[arg-type]


CASES = {
    "nobody waits": ([], [room("a")], {}, []),
    "a free seat goes to the one who waits longest": (
        [waiting("late", 2), waiting("early", 1)], [room("a")], {"early": "a"}, [],
    ),
    "each free seat is given once": (
        [waiting("x", 1), waiting("y", 2), waiting("z", 3)],
        [room("a", 2)],
        {"x": "a", "y": "a"},
        [],
    ),
    "the earliest chooses first, by what it measured": (
        [
            waiting("x", 1, latencies={"a": 5.0, "b": 90.0}),
            waiting("y", 2, latencies={"a": 5.0, "b": 90.0}),
        ],
        [room("a"), room("b")],
        {"x": "a", "y": "b"},
        [],
    ),
    "one who asked for a full place lets others pass": (
        [waiting("picky", 1, only="b"), waiting("y", 2)], [room("a")], {"y": "a"}, [],
    ),
    "one whose session is limited to a full place lets others pass": (
        [waiting("tied", 1, allowed=frozenset("b")), waiting("y", 2)],
        [room("a"), room("b", 0)],
        {"y": "a"},
        [],
    ),
    "who has waited too long goes, even if there is room": (
        [waiting("x", until=NOW)], [room("a")], {}, ["x"],
    ),
    "a cordoned or broken place admits nobody": (
        [waiting("x")], [room("a", cordoned=True), room("b", trouble="is down")], {}, [],
    ),
    "a place that does badly for its template is the last one that it gets": (
        [waiting("x", 1, degraded={"a": "is degraded"}), waiting("y", 2)],
        [room("a"), room("b")],
        {"x": "b", "y": "a"},
        [],
    ),
    "one who needs what a place has run out of lets others pass": (
        [waiting("x", 1, exhausted={"a": "has no port"}), waiting("y", 2)],
        [room("a")],
        {"y": "a"},
        [],
    ),
    "each free port is given once, and who needs none passes": (
        [
            waiting("x", 1, ports={"UDP": 2}),
            waiting("y", 2, ports={"UDP": 2}),
            waiting("z", 3, ports={"TCP": 1}),
            waiting("plain", 4),
        ],
        [room("a", 9, free_ports={"TCP": 1, "UDP": 3})],
        {"x": "a", "z": "a", "plain": "a"},
        [],
    ),
    "ports that nobody counts keep nobody out": (
        [waiting("x", 1, ports={"UDP": 2})], [room("a")], {"x": "a"}, [],
    ),
    "a place without a bound takes everybody": (
        [waiting("x", 1), waiting("y", 2)], [Candidate(name="a")], {"x": "a", "y": "a"}, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CASES)
def test_when(sentence: str) -> None:
    queue, places, admitted, expired = CASES[sentence]
    plan = plan_queue(queue, places, NOW)
    assert {id: choice.name for id, choice in plan.admit.items()} == admitted
    assert plan.expire == expired


def test_the_next_deadline_is_that_of_those_who_stay() -> None:
    queue = [waiting("a", 1, 1500), waiting("b", 2, 1400), waiting("c", 3, 999)]
    assert plan_queue(queue, [room("p")], NOW).next_deadline == 1400
    assert plan_queue(queue, [Candidate(name="p")], NOW).next_deadline is None


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(900, 1100)), max_size=30),
    st.lists(st.integers(0, 5), max_size=5),
)
def test_no_place_is_overfilled_and_nobody_is_forgotten(times, frees) -> None:
    queue = [waiting(str(n), since, until) for n, (since, until) in enumerate(times)]
    places = [room(f"p{n}", free) for n, free in enumerate(frees)]
    plan = plan_queue(queue, places, NOW)
    for n, free in enumerate(frees):
        assert sum(choice.name == f"p{n}" for choice in plan.admit.values()) <= free
    alive = [w for w in queue if w.until > NOW]
    assert set(plan.expire) == {w.id for w in queue} - {w.id for w in alive}
    assert len(plan.admit) == min(len(alive), sum(frees))
