"""What is counted of game servers."""

from __future__ import annotations

from typing import Any

from edgewise.api.games import (
    GamePort,
    PortPolicy,
    Server,
    ServerPort,
    ServerSpec,
    ServerStatus,
    ShutdownAsked,
)
from edgewise.gameservers.counting import ServerCounts
from edgewise.gameservers.metrics import GameMetrics
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.caching.cache import Cache
from edgewise.workloads.deadlines import moment

NOW = moment("2026-11-17T12:00:00Z") or 0.0


def server(revision: int, state: str, **status: Any) -> Server:
    ports = [
        GamePort(name="game", container_port=7777),
        GamePort(name="admin", container_port=7778, policy=PortPolicy.NONE),
    ]
    return Server(
        metadata=ObjectMeta(
            name="a",
            namespace="play",
            uid="a",
            resource_version=str(revision),
            creation_timestamp="2026-11-17T11:00:00Z",
        ),
        spec=ServerSpec(pod={}, ports=ports),
        status=ServerStatus(
            state=state,
            ports=[ServerPort(name="game", port=7001), ServerPort(name="admin", port=7778)],
            **status,
        ),
    )


def test_states_ports_uptime_and_drains() -> None:
    metrics, cache = GameMetrics(), Cache(Server)
    ServerCounts(metrics, clock=lambda: NOW).follow(cache)
    value = metrics.registry.get_sample_value
    cache.replace([server(1, "Ready")], "1")
    assert value("edgewise_game_servers", {"state": "Ready"}) == 1
    assert value("edgewise_game_ports") == 1, "one of the pod alone is no port of a node"
    asked = ShutdownAsked(why="Deleted", since="2026-11-17T11:59:30Z")
    cache.replace([server(2, "Draining", shutdown=asked)], "2")
    assert value("edgewise_game_servers", {"state": "Ready"}) == 0
    assert value("edgewise_game_servers", {"state": "Draining"}) == 1
    cache.replace([], "3")
    assert value("edgewise_game_servers", {"state": "Draining"}) == 0
    assert value("edgewise_game_ports") == 0
    assert value("edgewise_game_server_uptime_seconds_sum") == 3600
    assert value("edgewise_game_drains_total", {"outcome": "Deleted"}) == 1
    assert value("edgewise_game_drain_seconds_sum") == 30


def test_a_state_of_a_newer_operator_makes_no_series() -> None:
    metrics, cache = GameMetrics(), Cache(Server)
    ServerCounts(metrics).follow(cache)
    cache.replace([server(1, "Dreaming")], "1")
    assert metrics.registry.get_sample_value("edgewise_game_servers", {"state": "Pending"}) == 1


def test_a_game_that_went_leaves_no_series() -> None:
    metrics = GameMetrics()
    metrics.wanted.labels("play", "arena").set(3)
    metrics.forget_game("play", "arena")
    metrics.forget_game("play", "arena")
    labels = {"namespace": "play", "game": "arena"}
    assert metrics.registry.get_sample_value("edgewise_game_wanted_servers", labels) is None


def test_a_reason_that_no_operator_gives_makes_no_series_of_its_own() -> None:
    metrics, cache = GameMetrics(), Cache(Server)
    ServerCounts(metrics, clock=lambda: NOW).follow(cache)
    for number in range(50):
        asked = ShutdownAsked(why=f"made-up-{number}")
        cache.replace([server(2 * number + 1, "Draining", shutdown=asked)], str(2 * number + 1))
        cache.replace([], str(2 * number + 2))
    value = metrics.registry.get_sample_value
    assert value("edgewise_game_drains_total", {"outcome": "Other"}) == 50
    assert value("edgewise_game_drains_total", {"outcome": "made-up-7"}) is None
