"""What a replica of the server counts; what it counts by game goes with the game."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY

from edgewise.api.games import Allocation, Fleet, GameType
from edgewise.gameservers.allocation.claiming import Given
from edgewise.gameservers.hub.half import GamesHalf
from edgewise.gameservers.hub.metrics import TAKEN_BACK
from edgewise.workloads.deadlines import moment

POD = {"pod": {"containers": [{"name": "game", "image": "game:1"}]}}


def made(kind: type[Any], name: str, spec: dict[str, Any]) -> Any:
    metadata = {"name": name, "namespace": "play", "uid": name, "resourceVersion": "1"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, kind)


def counted(game: str, outcome: str = "new") -> float | None:
    labels = {"game": game, "outcome": outcome}
    return REGISTRY.get_sample_value("edgewise_games_allocations_total", labels)


def test_a_game_that_went_leaves_no_series() -> None:
    client: Any = None
    half = GamesHalf(client, "play")
    half.games.types.replace([made(GameType, "rally", {"fleetSpec": {"spec": POD}})], "1")
    half.games.fleets.replace(
        [made(Fleet, name, {"spec": POD}) for name in ("rally", "derby")], "1"
    )
    for game in ("rally", "derby"):
        half.count(game, "new")
        half.count(game, "NoServerFree")
        TAKEN_BACK.labels(game).inc()
    half.games.fleets.replace([], "2")
    assert counted("derby") is None
    assert counted("derby", "NoServerFree") is None
    assert (
        REGISTRY.get_sample_value("edgewise_games_allocations_taken_back_total", {"game": "derby"})
        is None
    )
    assert counted("rally") == 1, "there is a GameType of this name yet"
    half.games.types.replace([], "3")
    assert counted("rally") is None
    half.count("rally", "new")
    assert counted("rally") is None, "a call that was under way begins no new series"


async def test_how_long_a_match_waited_is_counted_when_it_has_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client: Any = None
    half = GamesHalf(client, "play", clock=lambda: moment("2026-11-18T12:01:30Z") or 0.0)
    half.games.fleets.replace([made(Fleet, "derby", {"spec": POD})], "1")
    waiting = made(Allocation, "0a.waiting", {"waiting": {"until": "2026-11-18T13:00:00Z"}})
    waiting.metadata.creation_timestamp = "2026-11-18T12:00:00Z"
    answers = [None, Given(waiting)]

    async def serve(*_: object) -> Given | None:
        return answers.pop(0)

    monkeypatch.setattr(half.claims, "serve", serve)
    value = REGISTRY.get_sample_value
    count, total = (value(f"edgewise_games_wait_seconds_{each}") or 0 for each in ("count", "sum"))
    await half.duties_of_leader._serve("derby", waiting)
    assert value("edgewise_games_wait_seconds_count") == count, "none was free after all"
    await half.duties_of_leader._serve("derby", waiting)
    assert value("edgewise_games_wait_seconds_count") == count + 1
    assert value("edgewise_games_wait_seconds_sum") == total + 90
