"""What the runtime counts and times, for Prometheus.

Each `Metrics` has a registry of its own, so that several managers (and tests) in one
process do not get into each other's way. What can be read when it is asked for (depths,
ages, sizes) costs nothing until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        new: dict[str, Any] = {"registry": self.registry}
        self.queue_depth = Gauge(
            "edgewise_queue_depth", "Keys that wait for a worker.", ["controller"], **new
        )
        self.queue_delayed = Gauge(
            "edgewise_queue_delayed", "Keys that wait for their time.", ["controller"], **new
        )
        self.queue_adds = Counter(
            "edgewise_queue_adds", "Keys that were added.", ["controller"], **new
        )
        self.queue_retries = Counter(
            "edgewise_queue_retries", "Reconciles to be tried again.", ["controller"], **new
        )
        self.queue_wait = Histogram(
            "edgewise_queue_wait_seconds",
            "From a key being added to a worker taking it.",
            ["controller"],
            buckets=_SECONDS,
            **new,
        )
        self.reconcile_seconds = Histogram(
            "edgewise_reconcile_seconds",
            "Duration of a reconcile.",
            ["controller"],
            buckets=_SECONDS,
            **new,
        )
        self.reconciles = Counter(
            "edgewise_reconciles", "Reconciles by outcome.", ["controller", "outcome"], **new
        )
        self.working = Gauge(
            "edgewise_reconciles_running", "Reconciles that run now.", ["controller"], **new
        )
        self.watch_restarts = Counter(
            "edgewise_watch_restarts", "Watches begun anew, by reason.", ["cache", "reason"], **new
        )
        self.lists = Counter("edgewise_lists", "Complete lists taken over.", ["cache"], **new)
        self.list_seconds = Histogram(
            "edgewise_list_seconds", "Duration of a list.", ["cache"], buckets=_SECONDS, **new
        )
        self.watch_events = Counter(
            "edgewise_watch_events", "Changes that the watch brought.", ["cache"], **new
        )
        self.cache_objects = Gauge("edgewise_cache_objects", "Objects held.", ["cache"], **new)
        self.cache_unreadable = Gauge(
            "edgewise_cache_unreadable_objects",
            "Objects left out because they do not fit their type.",
            ["cache"],
            **new,
        )
        self.cache_age = Gauge(
            "edgewise_cache_age_seconds",
            "Since the API server was last heard about this kind; infinite before that.",
            ["cache"],
            **new,
        )
        self.api_requests = Counter(
            "edgewise_api_requests",
            "Requests by verb, kind and HTTP status (0: no answer).",
            ["verb", "kind", "code"],
            **new,
        )
        self.leading = Gauge("edgewise_leading", "1 while this process leads.", **new)
        self.events_dropped = Counter(
            "edgewise_events_dropped", "Events not told to the API server.", ["reason"], **new
        )

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)

    def request(self, verb: str, kind: str, code: int) -> None:
        self.api_requests.labels(verb, kind, str(code)).inc()

    def forget_cache(self, name: str) -> None:
        """Of a cluster that went: its series would be shown for ever."""
        for metric in (
            self.watch_restarts,
            self.lists,
            self.list_seconds,
            self.watch_events,
            self.cache_objects,
            self.cache_unreadable,
            self.cache_age,
        ):
            metric.remove_by_labels({"cache": name})

    def value(self, name: str, **labels: str) -> float:
        """One sample, for tests and benchmarks; 0 where there is none yet."""
        return self.registry.get_sample_value(name, labels) or 0.0


class QueueMetrics:
    """The observer of one controller's queue."""

    def __init__(self, metrics: Metrics, controller: str) -> None:
        self.added: Callable[[], None] = metrics.queue_adds.labels(controller).inc
        self.retried: Callable[[], None] = metrics.queue_retries.labels(controller).inc
        self.waited: Callable[[float], None] = metrics.queue_wait.labels(controller).observe


class Heartbeat:
    """When something was last heard from; infinitely long ago before the first time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last: float | None = None

    def beat(self, at: float | None = None) -> None:
        at = self._monotonic() if at is None else at
        self._last = at if self._last is None else max(at, self._last)

    def age(self) -> float:
        return float("inf") if self._last is None else self._monotonic() - self._last
