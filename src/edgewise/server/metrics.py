"""What the server counts, and what can be read off the fleet when somebody asks."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterable

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from edgewise.server.fleet import Fleet

JOINS = Counter("edgewise_fleet_joins", "Joins by outcome.", ["outcome"])
JOIN_SECONDS = Histogram(
    "edgewise_fleet_join_seconds",
    "Until a new client was seated, its pods not included.",
    buckets=(0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
MOVES = Counter("edgewise_fleet_moves", "Clients moved because their cluster was lost.", ["left"])
LOST = Counter("edgewise_fleet_clients_lost", "Clients that fell silent.")
REPAIRS = Counter("edgewise_fleet_repairs", "What the repair did in members.", ["action"])


def show_fleet(fleet: Fleet, registry: CollectorRegistry = REGISTRY) -> None:
    """Let scrapes read the fleet."""
    registry.register(_FleetCollector(fleet))


class _FleetCollector(Collector):
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        hub = self._fleet.hub
        yield GaugeMetricFamily(
            "edgewise_fleet_hub_ready", "1 while the hub answers.", value=int(hub.mirror.ready)
        )
        yield GaugeMetricFamily("edgewise_fleet_sessions", "Sessions.", value=len(hub.sessions))
        states = Count((binding.spec.cluster, str(binding.spec.state)) for binding in hub.bindings)
        clients = GaugeMetricFamily(
            "edgewise_fleet_clients", "Clients by location and state.", labels=["location", "state"]
        )
        for (location, state), number in sorted(states.items()):
            clients.add_metric([location, state.lower()], number)
        yield clients
        ready = GaugeMetricFamily(
            "edgewise_fleet_location_ready", "1 while it takes clients.", labels=["location"]
        )
        free = GaugeMetricFamily(
            "edgewise_fleet_location_free",
            "Free seats, where there is a bound.",
            labels=["location"],
        )
        for place in self._fleet.locations():
            ready.add_metric([place.name], int(place.state == "ready"))
            if place.free is not None:
                free.add_metric([place.name], place.free)
        yield ready
        yield free
