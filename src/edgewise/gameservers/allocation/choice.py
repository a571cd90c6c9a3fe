"""Which idle server a match gets: pure, over servers that are grouped by game and node.

Packed takes servers on the nodes that have most allocated ones, so that other nodes become empty
and can be given back; Distributed takes them where fewest are.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Set

import msgspec

from edgewise.gameservers.allocation.request import Fits


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A server that could be given to a match."""

    name: str
    uid: str = ""
    node: str = ""
    version: str = ""
    labels: Mapping[str, str] = {}
    fleet: str = ""
    acknowledge: float = 0.0  # seconds that its game has to acknowledge; 0: it need not


class Nodes(msgspec.Struct, frozen=True):
    """The idle servers of one game by node, and how many servers of each node are allocated."""

    idle: Mapping[str, Mapping[str, Candidate]]
    allocated: Mapping[str, int]


def choose(
    nodes: Nodes, fits: Fits, *, packed: bool, salt: str, without: Set[str] = frozenset()
) -> Candidate | None:
    """The best server that is not in `without`; the first selector that fits any decides.

    Servers of one node are equally good. Each replica begins at another one of them (`salt`), so
    that two replicas seldom want the same.
    """
    ordered = _in_order(nodes, packed=packed)
    for fit in fits:
        for node in ordered:
            for candidate in _rotated(nodes.idle[node], salt):
                if candidate.name not in without and fit(candidate.labels, candidate.version):
                    return candidate
    return None


def _in_order(nodes: Nodes, *, packed: bool) -> list[str]:
    sign = -1 if packed else 1
    return sorted(
        (node for node, idle in nodes.idle.items() if idle),
        # Of nodes that are alike, the one with fewest idle servers is the fullest.
        key=lambda node: (sign * nodes.allocated.get(node, 0), -sign * len(nodes.idle[node]), node),
    )


def _rotated(idle: Mapping[str, Candidate], salt: str) -> Iterator[Candidate]:
    start = zlib.crc32(salt.encode()) % len(idle)
    for number, candidate in enumerate(idle.values()):
        if number >= start:
            yield candidate
    for number, candidate in enumerate(idle.values()):
        if number >= start:
            return
        yield candidate
