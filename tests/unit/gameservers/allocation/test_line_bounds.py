"""What one application may have in the line of a game: others are served beside it."""

from __future__ import annotations

import pytest

from edgewise.api.games import (
    Allocation,
    AllocationSpec,
    Server,
    ServerSpec,
    WaitingInLine,
    WaitingSelector,
)
from edgewise.gameservers.allocation.errors import NoServerFree
from edgewise.gameservers.allocation.idle_servers import LONGEST_ACKNOWLEDGE, candidate_of
from edgewise.gameservers.allocation.line import MOST_WAITING, MOST_WISHES, check_place, check_room
from edgewise.gameservers.allocation.matches import Matches
from edgewise.gameservers.allocation.request import (
    MOST_REQUIREMENTS,
    AllocationRequest,
    Selector,
    read_selectors,
)
from edgewise.gameservers.allocation.revisions import MatchKey
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.errors import Unacceptable

KEY = MatchKey("arena", "greedy", "next")


def waiting(number: int, labels: str = "", holder: str = "greedy") -> Allocation:
    made = Allocation.named(
        f"{holder}-{number}.waiting",
        "play",
        spec=AllocationSpec(
            game="arena",
            holder=holder,
            match=f"m{number}",
            waiting=WaitingInLine(
                until="2030-01-01T00:00:00Z", selectors=[WaitingSelector(labels=labels)]
            ),
        ),
    )
    made.metadata.uid, made.metadata.resource_version = f"{holder}-{number}", str(number + 1)
    return made


def wish(labels: str = "") -> AllocationRequest:
    return AllocationRequest(match="next", selectors=[Selector(labels=labels)], wait=60)


def line(*allocations: Allocation) -> tuple[Matches, Cache[Allocation]]:
    cache: Cache[Allocation] = Cache(Allocation)
    matches = Matches(Cache(Server), cache, "play")
    cache.replace(allocations, "100000")
    return matches, cache


def test_one_holder_has_so_many_in_a_line_and_no_more() -> None:
    matches, cache = line(*(waiting(number) for number in range(MOST_WAITING)))
    with pytest.raises(NoServerFree, match=f"{MOST_WAITING} of your matches wait for arena"):
        check_room(matches, KEY, wish())
    check_room(matches, KEY._replace(holder="other"), wish())
    check_room(matches, KEY._replace(game="other"), wish())
    gone = waiting(MOST_WAITING - 1)
    gone.metadata.resource_version = "100001"
    cache.apply(gone, deleted=True)
    check_room(matches, KEY, wish())


def test_wishes_of_one_holder_are_alike_or_few() -> None:
    """Each that differs is looked for among all idle servers, for every call of anybody."""
    matches, _ = line(*(waiting(number, f"map=m{number}") for number in range(MOST_WISHES)))
    check_room(matches, KEY, wish("map=m1"))
    with pytest.raises(NoServerFree, match="selectors: your matches wait"):
        check_room(matches, KEY, wish("map=another"))
    check_room(matches, KEY._replace(holder="other"), wish("map=another"))


def test_who_waits_no_more_leaves_nothing_behind() -> None:
    matches, cache = line(*(waiting(number, f"map=m{number}") for number in range(5)))
    assert matches.waiting_of("arena", "greedy").total() == 5
    cache.replace([], "100001")
    assert not matches._lines


def test_selectors_that_ask_for_too_much_are_refused() -> None:
    each = ",".join(f"!k{number}" for number in range(MOST_REQUIREMENTS // 2))
    read_selectors([Selector(labels=each)] * 2)
    with pytest.raises(Unacceptable, match=f"more than {MOST_REQUIREMENTS}"):
        read_selectors([Selector(labels=each)] * 3)


def test_one_that_waits_for_no_match_is_served_by_nobody() -> None:
    """What is taken for it is found by nobody, so that it would get one server after another."""
    forged = waiting(1)
    forged.spec.match = ""
    matches, _ = line(forged, waiting(2))
    assert [each.metadata.uid for each in matches.line("arena")] == ["greedy-2"]


def test_a_caller_waits_for_no_game_without_end() -> None:
    spec = ServerSpec(pod={"containers": [{"name": "game"}]}, acknowledge="8760h")
    assert candidate_of(Server.named("s", "play", spec=spec)).acknowledge == LONGEST_ACKNOWLEDGE


def test_what_another_hand_put_in_the_place_of_a_match_is_no_answer() -> None:
    """A caller who waits was told of a server of that name, which there is not."""
    own = waiting(1)
    key = MatchKey("arena", "greedy", "m1")
    check_place(key, own)
    strangers = (waiting(2), waiting(1, holder="other"))
    served = waiting(1)
    served.spec.waiting = None
    for each in (*strangers, served):
        with pytest.raises(NoServerFree, match=f"of another hand: delete {each.metadata.name}"):
            check_place(key, each)
