"""What others may write on the objects of games stops no operator, and ends no other server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from edgewise.api.games import Fleet, FleetSpec, GameType, GameTypeSpec, Server, ServerSpec
from edgewise.gameservers.gametype.apply import GameWriter
from edgewise.gameservers.gametype.plan import GamePlan
from edgewise.gameservers.hub.objects import Objects
from edgewise.gameservers.sdk.words import MOST_KEPT, PREFIX, Said, metadata_patch
from edgewise.gameservers.server.manifest import malformed, read_ports
from edgewise.gameservers.server.plan import plan_server
from tests.unit.gameservers.making import NOW, READY, SOMEBODY, seen

SPEC = ServerSpec(pod={"containers": [{"name": "game"}]})


def server(name: str = "s", owner: str = "") -> Server:
    made = Server.named(name, "play", spec=SPEC)
    if owner:
        made.metadata.labels = {"fleet": "old"}
        fleet = Fleet.named("old", "play", spec=FleetSpec(spec=SPEC))
        fleet.metadata.uid = owner
        made.metadata.owner_references = [fleet.owner_reference()]
    return made


@pytest.mark.parametrize("number", ["9" * 5000, "99999999999999999999", "-1", "x", ""])
def test_ports_on_a_pod_that_are_none_are_left_out(number: str) -> None:
    assert read_ports(f"game={number},chat=7001") == {"chat": 7001}


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"tolerations": [{"key": ["a"]}]}, "tolerations[0].key must be a text"),
        (
            {"containers": [{"name": "a", "env": [{"name": {}}]}]},
            "containers[0].env: a name must be a text",
        ),
        ({"initContainers": [{"env": [{}]}]}, "initContainers[0].env: a name must be a text"),
    ],
)
def test_a_pod_that_cannot_be_made_is_refused_with_its_field(pod: Any, words: str) -> None:
    assert malformed(pod) == words


def test_a_game_that_says_other_labels_each_time_does_not_fill_its_server() -> None:
    found = server()
    found.metadata.labels = {"fleet": "arena"}
    for number in range(100):
        said = Said(labels={f"n{number}-{each}": "x" for each in range(30)})
        changes = metadata_patch(found, said)["labels"]
        merged = {**found.metadata.labels, **changes}
        found.metadata.labels = {name: value for name, value in merged.items() if value is not None}
        ours = [name for name in found.metadata.labels if name.startswith(PREFIX)]
        assert len(ours) <= MOST_KEPT
        assert all(found.metadata.labels[f"{PREFIX}{name}"] == "x" for name in said.labels)
    assert found.metadata.labels["fleet"] == "arena"


def test_labels_that_a_game_takes_back_stay_while_they_are_few() -> None:
    found = server()
    found.metadata.labels = {f"{PREFIX}map": "desert"}
    assert metadata_patch(found, Said(labels={"mode": "duel"})) == {
        "labels": {f"{PREFIX}mode": "duel"}
    }


async def test_the_hard_deadline_ends_the_servers_of_the_fleet_and_no_namesake() -> None:
    ended: list[str] = []

    class Api:
        async def list(self, *_: Any, **__: Any) -> Any:
            return SimpleNamespace(items=[server("old-1", "uid-old"), server("mine", "uid-other")])

        async def patch(self, found: Server, body: Any) -> None:
            assert body == {"spec": {"allowForceDelete": True}}
            ended.append(found.metadata.name)

    fleet = Fleet.named("old", "play", spec=FleetSpec(spec=SPEC))
    fleet.metadata.uid = "uid-old"
    game = GameType.named("arena", "play", spec=GameTypeSpec(fleet_spec=fleet.spec))
    api: Any = Api()
    await GameWriter(api, game, {"old": fleet}, now=0.0).carry_out(GamePlan(end=("old",)))
    assert ended == ["old-1"]


async def test_force_ends_the_servers_of_a_game_and_no_namesake() -> None:
    ended: list[str] = []
    game = GameType.named("arena", "play", spec=GameTypeSpec(fleet_spec=FleetSpec(spec=SPEC)))
    game.metadata.uid = "uid-game"
    fleet = Fleet.named("arena-1", "play", spec=FleetSpec(spec=SPEC))
    fleet.metadata.uid, fleet.metadata.owner_references = "uid-old", [game.owner_reference()]
    mine = server("mine")
    mine.metadata.labels = {"type": "arena", "fleet": "arena-1"}

    class Client:
        async def get(self, *_: Any) -> GameType:
            return game

        async def delete(self, *_: Any, **__: Any) -> None:
            return None

        async def patch(self, kind: Any, name: str, *_: Any, **__: Any) -> None:
            ended.append(name)

    games: Any = SimpleNamespace(
        client=Client(),
        namespace="play",
        fleets=[fleet],
        servers=[server("old-1", "uid-old"), mine],
    )
    await Objects(games).delete(GameType, "arena", force=True)
    assert ended == ["old-1"]


@pytest.mark.parametrize(
    "written", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "1", "²", "9" * 5000]
)
def test_a_moment_at_the_end_of_all_times_stops_no_server(written: str) -> None:
    asked = {"why": "Deleted", "since": written, "deadline": written}
    rest = {"count": 3, "until": written}
    status = {"state": "Ready", "shutdown": asked, "failures": rest}
    for pod in (READY, replace(READY, deleting=True), replace(READY, ended=True), None):
        assert plan_server(seen(pod, {"operation": "Retire"}, status), NOW)
        assert plan_server(seen(pod, status=status, deleting=True, taken=SOMEBODY), NOW)
