"""What a person on call wants to know about sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from edgewise.api.sessions import ClientPhase, PodPhase
from edgewise.sessions.orders import Tally

_READY = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 20, 40, 60, 120, 300)
_LATE = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_ROUTE = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2)

Counts = Mapping[str, int]


def _of(count: Callable[[], Counts], phase: str) -> float:
    return float(count().get(phase, 0))


class SessionMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        new: dict[str, Any] = {"registry": self.registry}
        self.joins = Counter("edgewise_session_joins", "Clients that joined.", **new)
        self.refusals = Counter(
            "edgewise_session_refusals", "Clients that were not admitted.", **new
        )
        self.expiries = Counter(
            "edgewise_session_expiries",
            "Disconnected clients that did not come back in time.",
            **new,
        )
        self.recoveries = Counter(
            "edgewise_session_recoveries", "Pods that were lost under their clients.", **new
        )
        self.reuses = Counter("edgewise_session_reuses", "Idle pods taken by a client.", **new)
        self.warm_hits = Counter(
            "edgewise_session_warm_hits", "Warm pods taken by a client.", **new
        )
        self.warm_misses = Counter(
            "edgewise_session_warm_misses", "Pods made because no warm one was free.", **new
        )
        self.ready_seconds = Histogram(
            "edgewise_session_ready_seconds",
            "From the moment a join was seen until the client was ready.",
            buckets=_READY,
            **new,
        )
        self.recovery_seconds = Histogram(
            "edgewise_session_recovery_seconds",
            "From the moment a lost pod was seen until its clients were ready again.",
            buckets=_READY,
            **new,
        )
        self.deadline_lag = Histogram(
            "edgewise_session_deadline_lag_seconds",
            "How late a deadline was acted upon.",
            buckets=_LATE,
            **new,
        )
        self.route_seconds = Histogram(
            "edgewise_session_route_seconds",
            "From publishing routes until the gateways had acknowledged them.",
            buckets=_ROUTE,
            **new,
        )
        self.unacknowledged = Counter(
            "edgewise_session_routes_unacknowledged",
            "Routes that no gateway acknowledged in time, or that one refused.",
            **new,
        )
        self._pods = Gauge("edgewise_session_pods", "Pods of sessions.", ["phase"], **new)
        self._clients = Gauge("edgewise_session_clients", "Clients.", ["phase"], **new)
        self.warm_pods = Gauge(
            "edgewise_session_warm_pods", "Warm pods.", ["namespace", "template"], **new
        )

    def follow(self, pods: Callable[[], Counts], clients: Callable[[], Counts]) -> None:
        """Counted when somebody asks, and not before."""
        for gauge, phases, count in (
            (self._pods, PodPhase, pods),
            (self._clients, ClientPhase, clients),
        ):
            for phase in phases:
                gauge.labels(phase).set_function(partial(_of, count, phase))

    def count(self, tally: Tally) -> None:
        for counter, number in (
            (self.joins, tally.joins),
            (self.refusals, tally.refusals),
            (self.expiries, tally.expiries),
            (self.recoveries, tally.recoveries),
            (self.reuses, tally.reuses),
            (self.warm_hits, tally.warm_hits),
            (self.warm_misses, tally.warm_misses),
        ):
            if number:
                counter.inc(number)
        for seconds in tally.late:
            self.deadline_lag.observe(max(0.0, seconds))
