"""What the server counts, and what can be read off the hub when somebody asks."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterable, Set

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from edgewise.sessions.hub.hub_view import HubView

JOINS = Counter("edgewise_hub_joins", "Joins by outcome.", ["outcome"])
JOIN_SECONDS = Histogram(
    "edgewise_hub_join_seconds",
    "Until a new client was seated, its pods not included.",
    buckets=(0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
MOVES = Counter("edgewise_hub_moves", "Clients moved because their cluster was lost.", ["left"])
LATE_MOVES = Counter(
    "edgewise_hub_late_moves",
    "Clients moved because their pods were not ready in time.",
    ["left"],
)
DISCONNECTED = Counter("edgewise_hub_clients_disconnected", "Clients that fell silent.")
REPAIRS = Counter("edgewise_hub_repairs", "What the repair did in members.", ["action"])


def show_hub(hub_view: HubView, registry: CollectorRegistry = REGISTRY) -> None:
    """Let scrapes read the hub."""
    registry.register(_HubCollector(hub_view))


class _HubCollector(Collector):
    def __init__(self, hub_view: HubView) -> None:
        self._hub_view = hub_view

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        hub = self._hub_view.hub
        yield GaugeMetricFamily(
            "edgewise_hub_hub_ready", "1 while the hub answers.", value=int(hub.link.ready)
        )
        yield GaugeMetricFamily("edgewise_hub_sessions", "Sessions.", value=len(hub.sessions))
        states = Count((binding.spec.location, str(binding.spec.state)) for binding in hub.bindings)
        clients = GaugeMetricFamily(
            "edgewise_hub_clients", "Clients by location and state.", labels=["location", "state"]
        )
        for (location, state), number in sorted(states.items()):
            clients.add_metric([location, state.lower()], number)
        yield clients
        ready = GaugeMetricFamily(
            "edgewise_hub_location_ready", "1 while it takes clients.", labels=["location"]
        )
        free = GaugeMetricFamily(
            "edgewise_hub_location_free",
            "Free seats, where there is a bound.",
            labels=["location"],
        )
        degraded = GaugeMetricFamily(
            "edgewise_hub_location_degraded",
            "1 for a template whose clients are not ready in time there.",
            labels=["location", "template"],
        )
        for place in self._hub_view.locations():
            for template in sorted(place.degraded):
                degraded.add_metric([place.name, template], 1)
            ready.add_metric([place.name], int(place.state == "ready"))
            if place.free is not None:
                free.add_metric([place.name], place.free)
        yield ready
        yield free
        yield degraded
        if hub.locations.synced:
            forget_moves(but_from={location.metadata.name for location in hub.locations})


def forget_moves(but_from: Set[str]) -> None:
    """Of locations that were taken out. They are forgotten when somebody looks, and not when they
    go: it is afterwards that their clients are moved, and counted."""
    for counter in (MOVES, LATE_MOVES):
        for metric in list(counter.collect()):
            for left in {sample.labels["left"] for sample in metric.samples} - but_from:
                counter.remove(left)
