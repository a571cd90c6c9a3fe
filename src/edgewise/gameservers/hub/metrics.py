"""What the server counts of allocations."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterable

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from edgewise.gameservers.hub.records import Games

ALLOCATIONS = Counter(
    "edgewise_games_allocations", "Calls for a server by game and outcome.", ["game", "outcome"]
)
ALLOCATION_SECONDS = Histogram(
    "edgewise_games_allocation_seconds",
    "Until a match had its server, time in the line not included.",
    buckets=(0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
WAIT_SECONDS = Histogram(
    "edgewise_games_wait_seconds",
    "How long matches waited in the line until they had a server.",
    buckets=(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600),
)
TAKEN_BACK = Counter(
    "edgewise_games_allocations_taken_back",
    "Allocations that the leader ended: leases, late ones, matches that waited in vain.",
    ["game"],
)


def forget_game(name: str) -> None:
    """A game that is gone keeps no series: who deploys a new one each day would have thousands."""
    for counter in (ALLOCATIONS, TAKEN_BACK):
        counter.remove_by_labels({"game": name})


def show_games(games: Games, registry: CollectorRegistry = REGISTRY) -> None:
    """Let scrapes read the caches."""
    registry.register(_GamesCollector(games))


class _GamesCollector(Collector):
    def __init__(self, games: Games) -> None:
        self._games = games

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        counts: Count[tuple[str, str]] = Count()
        for each in self._games.allocations:
            if not each.spec.retired:
                waits = each.spec.waiting is not None
                counts[each.spec.game, "queued" if waits else "allocated"] += 1
        found = GaugeMetricFamily(
            "edgewise_games_matches",
            "Matches that have a server, or wait for one.",
            labels=["game", "state"],
        )
        for (game, state), number in sorted(counts.items()):
            found.add_metric([game, state], number)
        yield found
