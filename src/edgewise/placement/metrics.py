"""What a person on call wants to know about placements."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SEARCH = (1, 2, 5, 10, 15, 20, 30, 45, 60, 120, 300, 600)


class PlacementMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        new: dict[str, Any] = {"registry": self.registry}
        self.rounds = Counter("edgewise_placement_rounds", "Rounds of sentinels.", **new)
        self.searches = Counter(
            "edgewise_placement_searches", "Searches that ended, by phase.", ["phase"], **new
        )
        self.moves = Counter("edgewise_placement_moves", "Replicas that moved.", **new)
        self.search_seconds = Histogram(
            "edgewise_placement_search_seconds",
            "From the beginning of a search to its end.",
            buckets=_SEARCH,
            **new,
        )
        self.rtt = Gauge(
            "edgewise_placement_rtt_milliseconds",
            "The round trip to the worst replica, as its users report it.",
            ["namespace", "placement"],
            **new,
        )

    def forget(self, namespace: str, placement: str) -> None:
        self.rtt.remove_by_labels({"namespace": namespace, "placement": placement})
