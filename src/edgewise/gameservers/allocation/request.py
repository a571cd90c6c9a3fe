"""What a caller asks for: a match, and which servers would do for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from edgewise.runtime.caching.selection import Requirement, SelectorError, parse_labels
from edgewise.runtime.errors import Unacceptable

LONGEST_SELECTOR = 512
# Each is asked of every idle server, while nobody else is served.
MOST_REQUIREMENTS = 64
LONGEST_WAIT = 3600
LONGEST_LEASE = 86_400
# Replicas tell each other of heartbeats every few seconds.
SHORTEST_LEASE = 10
MOST_PLAYERS = 256
# A match id is part of paths, so it is made of what stands in a path as it is.
MATCH_ID = r"[A-Za-z0-9][A-Za-z0-9._:@+~=-]{0,127}"
MATCH_RULE = (
    "must have at most 128 characters: letters, digits and . _ : @ + ~ = -, and begin with a "
    "letter or a digit"
)
# `$` also matches before a line feed at the end; nothing may follow, not even that.
END = r"(?![\s\S])"

Match = Annotated[str, Meta(pattern=f"^{MATCH_ID}{END}")]
MetadataKey = Annotated[str, Meta(min_length=1, max_length=253)]
Player = Annotated[str, Meta(min_length=1, max_length=128)]


class Selector(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Servers that would do. All that is said has to fit; nothing said fits every server."""

    labels: Annotated[str, Meta(max_length=LONGEST_SELECTOR)] = ""
    """A label selector, as for `kubectl get -l`: `map=desert,tier in (a, b)`."""
    version: Annotated[str, Meta(max_length=63)] = ""
    """The version of the game."""


class AllocationRequest(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A server for a match."""

    match: Match
    """Names the match. A call that is repeated with the same match gets the same server."""
    players: Annotated[list[Player], Meta(max_length=MOST_PLAYERS)] = []
    selectors: Annotated[list[Selector], Meta(max_length=16)] = []
    """Tried in this order; none: any server of the game."""
    metadata: Annotated[
        dict[MetadataKey, Annotated[str, Meta(max_length=4096)]], Meta(max_length=64)
    ] = {}
    """What the game is told with the allocation, before any player comes."""
    wait: Annotated[int, Meta(ge=0, le=LONGEST_WAIT)] = 0
    """Seconds in the queue if no server is free; 0: refused with 429."""
    lease: Annotated[int, Meta(ge=0, le=LONGEST_LEASE)] = 0
    """Without a heartbeat for so many seconds (10 or more), and without players, the server is
    taken back; 0: it is kept until it is released."""


class Fit(msgspec.Struct, frozen=True):
    """A selector that was read: labels that have to fit, and a version."""

    requirements: tuple[Requirement, ...] = ()
    version: str = ""

    def __call__(self, labels: Mapping[str, str], version: str) -> bool:
        if self.version and version != self.version:
            return False
        return all(met(labels) for met in self.requirements)


ANY = Fit()
Fits = tuple[Fit, ...]


def check_lease(wish: AllocationRequest) -> None:
    if 0 < wish.lease < SHORTEST_LEASE:
        raise Unacceptable(
            f"lease: {wish.lease} s is too short, say at least {SHORTEST_LEASE}, or 0 for none"
        )


def read_selectors(selectors: list[Selector]) -> Fits:
    """The selectors of a wish; Unacceptable, with a sentence, if one cannot be read."""
    found = tuple(_read(number, each) for number, each in enumerate(selectors)) or (ANY,)
    if sum(len(each.requirements) for each in found) > MOST_REQUIREMENTS:
        raise Unacceptable(f"selectors: all labels together have more than {MOST_REQUIREMENTS}")
    return found


def _read(number: int, selector: Selector) -> Fit:
    try:
        return Fit(tuple(parse_labels(selector.labels)), selector.version)
    except SelectorError as error:
        raise Unacceptable(f"selectors[{number}].labels: {error}") from None
