"""The rules of allocation, as sentences."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.api.games import Allocation, AllocationSpec, AllocationStatus, WaitingInLine
from edgewise.gameservers.allocation.choice import Candidate, Nodes, choose
from edgewise.gameservers.allocation.plan import (
    Seen,
    Waiting,
    plan_cleaning,
    plan_line,
    stands,
)
from edgewise.gameservers.allocation.request import ANY, Fits, Selector, read_selectors
from edgewise.gameservers.allocation.revisions import MatchKey
from edgewise.runtime.errors import Unacceptable

KEY = MatchKey("chess", "arena", "m1")


def allocation(revision: int, *, changed: int = 0, name: str = "", **spec: Any) -> Allocation:
    fields = {"game": "chess", "holder": "arena", "match": "m1", "server_uid": "s", **spec}
    made = Allocation.named(name or f"s{revision}", "play", spec=AllocationSpec(**fields))
    made.metadata.uid = f"u{revision}"
    made.metadata.resource_version = str(changed or revision)
    if changed:
        made.status = AllocationStatus(revision=str(revision))
    return made


def queued(revision: int) -> Allocation:
    waiting = WaitingInLine(until="2026-01-01T00:00:00Z")
    return allocation(revision, server_uid="", waiting=waiting)


STANDS: dict[str, tuple[Allocation, list[Allocation], bool]] = {
    "alone it stands": (allocation(5), [], True),
    "its own echo is no other": (allocation(5), [allocation(5)], True),
    "an earlier one counts": (allocation(5), [allocation(4)], False),
    "a later one does not": (allocation(5), [allocation(6)], True),
    "an earlier one that has changed since is still earlier": (
        allocation(5),
        [allocation(4, changed=9)],
        False,
    ),
    "a later one that has changed is still later": (
        allocation(5),
        [allocation(6, changed=9)],
        True,
    ),
    "a place in the line is no server": (allocation(5), [queued(4)], True),
}


@pytest.mark.parametrize("sentence", STANDS)
def test_that(sentence: str) -> None:
    own, others, expected = STANDS[sentence]
    assert stands(own, others) is expected


def seen(made: Allocation, age: float = 0.0, **fields: Any) -> Seen:
    return Seen(allocation=made, match=KEY, age=age, **fields)


NOW = 1000.0
CLEANING: dict[str, tuple[list[Seen], list[str]]] = {
    "what is young is left to its replica": ([seen(allocation(4)), seen(allocation(5), 29)], []),
    "of two, the later goes after 30 s": (
        [seen(allocation(5), 31), seen(allocation(4), 31)],
        ["u5"],
    ),
    "the first stays, however old": ([seen(allocation(4), 1e6, silent=1e6)], []),
    "a lease ends with its silence": ([seen(allocation(4, lease_seconds=60), silent=60)], ["u4"]),
    "a holder that was heard keeps it": ([seen(allocation(4, lease_seconds=60), silent=59)], []),
    "players keep it without their holder": (
        [seen(allocation(4, lease_seconds=60), silent=600, players=1)],
        [],
    ),
    "what was never acknowledged goes, with time to spare for its replica": (
        [seen(allocation(4, acknowledge_seconds=10), 41)],
        ["u4"],
    ),
    "until then it stays": ([seen(allocation(4, acknowledge_seconds=10), 39)], []),
    "what was acknowledged stays": (
        [seen(allocation(4, acknowledge_seconds=10), 99, acknowledged=True)],
        [],
    ),
    "who waited in vain leaves the line": ([seen(queued(4), until=NOW)], ["u4"]),
    "nobody waits for ever": ([seen(queued(4), until=NOW + 7201)], ["u4"]),
    "who waits stays in it": ([seen(queued(4), 99, until=NOW + 1)], []),
    "a match that has a server waits no longer": (
        [seen(queued(4), 31, until=NOW + 60), seen(allocation(5), 1)],
        ["u4"],
    ),
}


@pytest.mark.parametrize("sentence", CLEANING)
def test_the_leader_finds_that(sentence: str) -> None:
    found, expected = CLEANING[sentence]
    assert [each.allocation.metadata.uid for each in plan_cleaning(found, NOW)] == expected


def test_a_second_one_goes_only_while_the_first_is_there() -> None:
    first, second = allocation(4), allocation(5)
    (removal,) = plan_cleaning([seen(first, 31), seen(second, 31)], NOW)
    assert removal.earlier is first


# The choice -----------------------------------------------------------------------------------


def server(name: str, node: str = "n1", **fields: Any) -> Candidate:
    return Candidate(name=name, node=node, **fields)


def nodes(*servers: Candidate, **allocated: int) -> Nodes:
    found: dict[str, dict[str, Candidate]] = {}
    for each in servers:
        found.setdefault(each.node, {})[each.name] = each
    return Nodes(found, allocated)


TWO = nodes(server("a", "n1"), server("b", "n2"), n1=1, n2=5)
CHOICES: dict[str, tuple[Nodes, dict[str, Any], str | None]] = {
    "packed fills the fullest node": (TWO, {"packed": True}, "b"),
    "distributed takes the emptiest": (TWO, {"packed": False}, "a"),
    "who is claimed already is passed over": (TWO, {"packed": True, "without": {"b"}}, "a"),
    "with none left there is none": (TWO, {"packed": True, "without": {"a", "b"}}, None),
    "of nodes that are alike, packed empties the one with fewest idle": (
        nodes(server("a", "n1"), server("b", "n1"), server("c", "n2")),
        {"packed": True},
        "c",
    ),
    "the first selector that fits any decides": (
        nodes(server("a", version="v1"), server("b", version="v2", labels={"map": "sea"})),
        {
            "packed": True,
            "fits": read_selectors([Selector(labels="map=sand"), Selector(version="v2")]),
        },
        "b",
    ),
    "all that a selector says has to fit": (
        nodes(server("a", version="v1", labels={"map": "sea"})),
        {"packed": True, "fits": read_selectors([Selector(labels="map=sea", version="v2")])},
        None,
    ),
}


@pytest.mark.parametrize("sentence", CHOICES)
def test_in_choosing(sentence: str) -> None:
    known, options, expected = CHOICES[sentence]
    fits = options.pop("fits", (ANY,)) if "fits" in options else (ANY,)
    found = choose(known, fits, salt="r0", **options)
    assert (found.name if found is not None else None) == expected


def test_replicas_begin_at_different_servers() -> None:
    many = nodes(*(server(f"s{number}") for number in range(50)))
    chosen = [choose(many, (ANY,), packed=True, salt=f"replica-{n}") for n in range(8)]
    assert len({each.name for each in chosen if each is not None}) > 4


def test_a_selector_that_cannot_be_read_is_named() -> None:
    with pytest.raises(Unacceptable, match=r"selectors\[1\]\.labels: the label selector"):
        read_selectors([Selector(), Selector(labels="a=b c")])


# The line -------------------------------------------------------------------------------------


def line(*names: str, until: float = 100.0, **fits: Fits) -> list[Waiting]:
    return [Waiting(name=each, fits=fits.get(each, (ANY,)), until=until) for each in names]


def given(waiting: list[Waiting], known: Nodes, now: float = 0.0) -> dict[str, str]:
    def pick(fits: Fits, without: Any) -> Candidate | None:
        return choose(known, fits, packed=True, salt="r0", without=without)

    return {name: each.name for name, each in plan_line(waiting, pick, now).items()}


def test_first_come_first_served() -> None:
    assert given(line("x", "y"), nodes(server("a"))) == {"x": "a"}


def test_each_of_the_line_gets_a_server_of_its_own() -> None:
    served = given(line("x", "y"), nodes(server("a"), server("b")))
    assert sorted(served.values()) == ["a", "b"]


def test_only_who_could_not_use_a_server_is_passed() -> None:
    picky = read_selectors([Selector(version="v9")])
    assert given(line("x", "y", x=picky), nodes(server("a"))) == {"y": "a"}


def test_who_has_waited_too_long_is_served_no_more() -> None:
    assert given(line("x", until=5), nodes(server("a")), now=5) == {}
