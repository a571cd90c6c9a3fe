"""Which node is better, and how that is said: by rows."""

from __future__ import annotations

import pytest

from edgewise.api.placement import Ranked, Visited, Why
from edgewise.placement.ranking import Value, by_node, in_words, ranked
from edgewise.workloads.deadlines import stamp

NOW = 1_800_000_000.0


def value(node: str, rtt: float, n: int = 1, last: float = NOW) -> Value:
    return Value(node=node, rtt_ms=rtt, p95_ms=rtt, n=n, last=last)


SHARED: dict[str, tuple[list[Value], float]] = {
    "one pod": ([value("n1", 20)], 20),
    "of two pods, what more clients say": ([value("n1", 20, n=3), value("n1", 90, n=1)], 20),
    "in whichever order": ([value("n1", 90, n=1), value("n1", 20, n=3)], 20),
    "of as many clients, what is newer": (
        [value("n1", 90, last=NOW - 5), value("n1", 20, last=NOW)],
        20,
    ),
}


@pytest.mark.parametrize("sentence", SHARED)
def test_pods_of_one_node_share_its_value(sentence: str) -> None:
    values, rtt = SHARED[sentence]
    assert {name: each.rtt_ms for name, each in by_node(values).items()} == {"n1": rtt}


def rank(node: str, rtt: float) -> Ranked:
    return Ranked(node=node, rtt_ms=rtt)


ORDER = [rank("n1", 0.4), rank("n2", 10.0), rank("n3", 25.2), rank("n4", 50.0), rank("n5", 75.0)]

# Where it runs, why nodes are out, and what is said of it.
WORDS: dict[str, tuple[list[str], dict[str, str], str]] = {
    "it runs on the best": (["n1"], {"n3": Why.WORSE}, "n1 at 0 ms"),
    "a better one is full": (
        ["n3"],
        {"n1": Why.NO_ROOM, "n2": Why.NO_QUOTA},
        "n3 at 25 ms; n1 at 0 ms is full; n2 at 10 ms is beyond the quota",
    ),
    "what is worse is not spoken of": (["n2"], {"n1": Why.CORDONED}, "n2 at 10 ms; n1 at 0 ms is "),
    "a reason of a later version": (["n2"], {"n1": "Moonlight"}, "n2 at 10 ms; n1 at 0 ms"),
    "of many replicas three are named": (
        ["n1", "n2", "n3", "n4", "n5"],
        {},
        "n1 at 0 ms; n2 at 10 ms; n3 at 25 ms; 2 more",
    ),
    "it runs where nobody measured": (["n9"], {}, ""),
}


@pytest.mark.parametrize("sentence", WORDS)
def test_it_is_said_in_words(sentence: str) -> None:
    held, why, says = WORDS[sentence]
    visited = [Visited(node=node, why=each) for node, each in why.items()]
    said = in_words(ORDER, held, visited)
    assert said.startswith(says)
    assert bool(said) is bool(says)


def test_every_reason_has_its_words_or_needs_none() -> None:
    said = {each: in_words(ORDER, ["n2"], [Visited(node="n1", why=each)]) for each in Why}
    # A sentinel that went without us says nothing of its node.
    assert [each for each, words in said.items() if words.endswith("n1 at 0 ms")] == [Why.LOST]


def test_the_ranking_keeps_what_was_measured_and_forgets_nodes_that_are_gone() -> None:
    before = [
        Ranked(node="n1", rtt_ms=5.0, at=stamp(NOW - 30)),
        Ranked(node="n2", rtt_ms=9.0, at=stamp(NOW - 30)),
        Ranked(node="gone", rtt_ms=1.0, at=stamp(NOW - 30)),
    ]
    found = ranked(before, {"n2": value("n2", 3.0, last=NOW - 2)}, ["n1", "n2", "n3"], NOW)
    assert [(each.node, each.rtt_ms, each.age) for each in found] == [
        ("n2", 3.0, 2.0),
        ("n1", 5.0, 30.0),
    ]


def test_what_was_measured_where_no_node_is_is_left_out() -> None:
    assert ranked([], {"n9": value("n9", 3.0)}, ["n1"], NOW) == []
