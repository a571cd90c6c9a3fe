"""How far the nodes are from the users, as the paper's tables have it. Round trips, in ms."""

from __future__ import annotations

import math
from enum import StrEnum

from edgewise.errors import ReadableError
from edgewise.local.network.delay import Delay


class Map(StrEnum):
    """`table3`: what the paper's testbed was set to. `table1`: what it measured on the Internet."""

    TABLE1 = "table1"
    TABLE3 = "table3"


class TooManyNodes(ReadableError):
    """The map has no distance for some of them."""


# Mean and standard deviation of a round trip.
_ROUND_TRIPS: dict[Map, tuple[tuple[float, float], ...]] = {
    Map.TABLE3: tuple((float(ms), 0.0) for ms in (0, 10, 25, 50, 75, 100, 150, 200, 300, 500)),
    Map.TABLE1: (
        (23.098, 1.600),  # Milan
        (30.929, 1.592),  # google.com
        (34.707, 1.896),  # Frankfurt
        (45.281, 0.824),  # London
        (56.649, 0.888),  # Stockholm
        (58.140, 2.474),  # Ireland
        (113.236, 0.987),  # Northern Virginia
        (256.050, 12.533),  # Tokyo
    ),
}


def round_trips(which: Map, nodes: int) -> list[float]:
    """Their means, nearest first."""
    return [mean for mean, _ in _spread(which, nodes)]


def one_way(which: Map, nodes: int) -> list[Delay]:
    """What each packet takes: half of the mean, and as much noise as both ways add up to."""
    found = _spread(which, nodes)
    return [Delay(mean / 2, round(sigma / math.sqrt(2), 4)) for mean, sigma in found]


def _spread(which: Map, nodes: int) -> tuple[tuple[float, float], ...]:
    """With few nodes not the nearest distances but every second, or third, to tell them apart."""
    known = _ROUND_TRIPS[which]
    if nodes > len(known):
        raise TooManyNodes(f"{which} has {len(known)} distances: ask for at most as many --nodes")
    return known[:: len(known) // nodes][:nodes]


def noise(delays: list[Delay], share: float) -> list[Delay]:
    """With jitter: a deviation of a round trip is this share of the gap to the next node."""
    found = []
    for number, delay in enumerate(delays):
        gaps = [abs(delay.ms - other.ms) * 2 for other in _beside(delays, number)]
        jitter = share * min(gaps, default=0.0) / math.sqrt(2)
        found.append(Delay(delay.ms, round(jitter, 4)))
    return found


def _beside(delays: list[Delay], number: int) -> list[Delay]:
    return [delays[each] for each in (number - 1, number + 1) if 0 <= each < len(delays)]
