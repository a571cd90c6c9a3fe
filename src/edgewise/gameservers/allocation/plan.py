"""The rules of allocation, pure: who of two counts, who of the line is next, what is over.

`stands` and `plan_line` are for callers; `plan_cleaning` is for the leader, which ends what callers
and replicas left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

import msgspec

from edgewise.api.games import Allocation
from edgewise.gameservers.allocation.choice import Candidate
from edgewise.gameservers.allocation.request import LONGEST_WAIT, Fits
from edgewise.gameservers.allocation.revisions import MatchKey, first_of

# A replica that made a second Allocation of a match drops it within milliseconds. If it crashed
# before, the leader does after this time.
LEFT_BEHIND_SECONDS = 30.0


def stands(own: Allocation, of_match: Iterable[Allocation]) -> bool:
    """Whether an Allocation counts, seen after its creation: none of its match is earlier."""
    first = first_of([own, *(each for each in of_match if not _same(own, each))])
    return first is own


def _same(one: Allocation, other: Allocation) -> bool:
    return one.metadata.uid == other.metadata.uid


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One match in the line of a game."""

    name: str
    fits: Fits
    until: float  # seconds since the epoch


def plan_line(
    line: Iterable[Waiting],
    choose: Callable[[Fits, Set[str]], Candidate | None],
    now: float,
) -> dict[str, Candidate]:
    """Who of the line gets which server: first come, first served.

    A match passes only those in front of it that could not use that server at all.
    """
    given: dict[str, Candidate] = {}
    taken_now: set[str] = set()
    # A wish that found nothing is not asked for again by the next one in line.
    in_vain: set[Fits] = set()
    for waiting in line:
        if waiting.until <= now or waiting.fits in in_vain:
            continue
        candidate = choose(waiting.fits, taken_now)
        if candidate is None:
            in_vain.add(waiting.fits)
            continue
        given[waiting.name] = candidate
        taken_now.add(candidate.name)
    return given


# What is over ---------------------------------------------------------------------------------


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """An Allocation with what the leader knows beside it; times are seconds."""

    allocation: Allocation
    match: MatchKey
    age: float  # since this replica saw it first
    silent: float = 0.0  # since its holder was heard, or could have been
    players: int = 0  # that the game says are there
    acknowledged: bool = False
    until: float | None = None  # of one that waits: its deadline


class Removal(msgspec.Struct, frozen=True):
    """An Allocation to be deleted, if it is still as it was seen."""

    allocation: Allocation
    why: str
    # Of a second one of a match: the first, which has to be there still.
    earlier: Allocation | None = None


def plan_cleaning(seen: Iterable[Seen], now: float) -> list[Removal]:
    of_match: dict[MatchKey, list[Seen]] = {}
    for each in seen:
        of_match.setdefault(each.match, []).append(each)
    found: list[Removal] = []
    for group in of_match.values():
        first = first_of(each.allocation for each in group)
        for each in group:
            why = _over(each, first, now)
            second = first is not None and not _same(first, each.allocation)
            if why:
                found.append(Removal(each.allocation, why, first if second else None))
    return found


def _over(seen: Seen, first: Allocation | None, now: float) -> str:
    """Why an Allocation is to go; empty if it is not."""
    spec = seen.allocation.spec
    left_behind = seen.age >= LEFT_BEHIND_SECONDS
    if spec.waiting is not None:
        return _waited_enough(seen, first, now)
    if first is not None and not _same(first, seen.allocation):
        return "the match has an earlier one" if left_behind else ""
    late = seen.age >= spec.acknowledge_seconds + LEFT_BEHIND_SECONDS
    if spec.acknowledge_seconds and not seen.acknowledged and late:
        return "the game did not acknowledge it"
    if spec.lease_seconds and not seen.players and seen.silent >= spec.lease_seconds:
        return "its holder was not heard for as long as the lease says, and no player is there"
    return ""


def _waited_enough(seen: Seen, first: Allocation | None, now: float) -> str:
    if seen.until is not None and seen.until <= now:
        return "no server became free in time"
    if seen.until is not None and seen.until > now + 2 * LONGEST_WAIT:
        return "nobody can ask to wait for so long"
    has_one = first is not None and seen.age >= LEFT_BEHIND_SECONDS
    return "the match has a server" if has_one else ""
