"""What a person on call wants to know about game servers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from edgewise.api.games import ServerState

_UPTIME = (1, 10, 60, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)
_DRAIN = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 600, 1200, 2400, 3600)

Counts = Mapping[str, int]


def _of(count: Callable[[], Counts], state: str) -> float:
    return float(count().get(state, 0))


class GameMetrics:
    """Of the operator; the server counts allocations and waits for them."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        new: dict[str, Any] = {"registry": self.registry}
        self._servers = Gauge("edgewise_game_servers", "Game servers.", ["state"], **new)
        self.ports = Gauge("edgewise_game_ports", "Ports of nodes that game servers have.", **new)
        self.uptime = Histogram(
            "edgewise_game_server_uptime_seconds",
            "From the creation of a server until its pod was gone.",
            buckets=_UPTIME,
            **new,
        )
        self.drains = Counter(
            "edgewise_game_drains",
            "Servers that ended, by why they were asked to.",
            ["outcome"],
            **new,
        )
        self.drain_seconds = Histogram(
            "edgewise_game_drain_seconds",
            "From asking a game to end until its pod was gone.",
            buckets=_DRAIN,
            **new,
        )
        self.rollouts = Counter(
            "edgewise_game_rollouts",
            "Roll-outs, by how they went.",
            ["outcome"],
            **new,
        )
        self.decisions = Counter(
            "edgewise_game_scaling_decisions",
            "What autoscalers decided: Up, Down, or why the number stayed.",
            ["outcome"],
            **new,
        )
        self.wanted = Gauge(
            "edgewise_game_wanted_servers",
            "The number that an autoscaler last set or kept.",
            ["namespace", "game"],
            **new,
        )

    def follow(self, servers: Callable[[], Counts], ports: Callable[[], float]) -> None:
        """Counted when somebody asks, and not before."""
        self.ports.set_function(ports)
        for state in ServerState:
            self._servers.labels(state.value).set_function(partial(_of, servers, state.value))

    def forget_game(self, namespace: str, name: str) -> None:
        with contextlib.suppress(KeyError):  # no autoscaler ever set it
            self.wanted.remove(namespace, name)
