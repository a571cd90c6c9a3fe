"""The order in which Allocations were made, and what this replica has seen of it.

Two Allocations of one match are told apart by the revision of their creation. It is the
`resourceVersion` until the first change, which records it in the status: the order in which they
arrive says nothing, because a list comes by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from edgewise.api.games import Allocation
from edgewise.gameservers.retirement import created


class MatchKey(NamedTuple):
    """One match. Two holders may call their matches alike, and never see each other's."""

    game: str
    holder: str
    match: str


# The selectors of one that waits: labels and version of each.
Wished = tuple[tuple[str, str], ...]


def wished(waiting: Allocation) -> Wished:
    said = waiting.spec.waiting.selectors if waiting.spec.waiting is not None else []
    return tuple((each.labels, each.version) for each in said)


def match_of(allocation: Allocation) -> MatchKey | None:
    """None for a server that the operator retires: nobody plays on it."""
    spec = allocation.spec
    if spec.retired or not spec.match:
        return None
    return MatchKey(spec.game, spec.holder, spec.match)


def by_match(allocation: Allocation) -> Iterable[MatchKey]:
    """An index of a cache."""
    found = match_of(allocation)
    return () if found is None else (found,)


def by_game(allocation: Allocation) -> str | None:
    """An index of a cache: the matches of a game."""
    return allocation.spec.game if match_of(allocation) is not None else None


def by_line(allocation: Allocation) -> str | None:
    """An index of a cache: the game that it waits for a server of."""
    return allocation.spec.game if allocation.spec.waiting is not None else None


def waits(allocation: Allocation) -> Iterable[str]:
    """An index of a cache: all that wait, under the empty text."""
    return ("",) if allocation.spec.waiting is not None else ()


def first_of(allocations: Iterable[Allocation]) -> Allocation | None:
    """Of several Allocations of one match, the one that counts."""
    return min(taken(allocations), key=created, default=None)


def taken(allocations: Iterable[Allocation]) -> list[Allocation]:
    """Those that have a server; the others wait for one."""
    return [each for each in allocations if each.spec.waiting is None]


def in_line(allocations: Iterable[Allocation]) -> list[Allocation]:
    """Those that wait, who came first in front."""
    waiting = (each for each in allocations if each.spec.waiting is not None)
    return sorted(waiting, key=lambda each: (created(each), each.metadata.name))
