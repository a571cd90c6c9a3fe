"""`edgewise game`: what it prints, and why a server is still there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from click.testing import Result
from typer.testing import CliRunner

from edgewise.api.games import (
    Allocation,
    AllocationSpec,
    Allowed,
    Deletion,
    Fleet,
    FleetSpec,
    FleetStatus,
    GameType,
    GameTypeSpec,
    GameTypeStatus,
    Idle,
    Operation,
    Rollout,
    Scaling,
    Server,
    ServerPort,
    ServerSpec,
    ServerStatus,
    ShutdownAsked,
)
from edgewise.cli.game import commands
from edgewise.cli.game.cluster import ClusterGames, GameError, NoneFree
from edgewise.cli.game.commands import changes, checked, games_table, servers_table, waited
from edgewise.cli.game.explain import Around, explain
from edgewise.cli.game.views import ServerView, view_fleet, view_game, view_server
from edgewise.gameservers import names
from edgewise.gameservers.outgoing import OUTGOING
from edgewise.kube.documents import Listing
from edgewise.kube.errors import AlreadyExists, NotFound
from edgewise.kube.objects import ObjectMeta

NOW = datetime(2026, 11, 17, 12, 0, 0, tzinfo=UTC)
POD: dict[str, Any] = {"containers": [{"name": "game", "image": "arena:1"}]}


def server(state: str = "Ready", *, deleting: bool = False, **fields: Any) -> Server:
    spec = {key: fields.pop(key) for key in list(fields) if key in ServerSpec.__struct_fields__}
    labels = {names.FLEET: "arena-v1", names.TYPE: "arena"}
    return Server(
        metadata=ObjectMeta(
            name="arena-v1-0",
            uid="u0",
            labels=labels,
            creation_timestamp="2026-11-17T11:00:00Z",
            deletion_timestamp="2026-11-17T11:59:00Z" if deleting else None,
        ),
        spec=ServerSpec(pod=POD, **spec),
        status=ServerStatus(state=state, **fields),
    )


def fleet(outgoing: str = "", wanted: int = 3) -> Fleet:
    return Fleet(
        metadata=ObjectMeta(name="arena-v1", annotations={OUTGOING: outgoing} if outgoing else {}),
        spec=FleetSpec(scaling=Scaling(replicas=wanted), spec=ServerSpec(pod=POD)),
        status=FleetStatus(replicas=3, ready=2, allocated=1),
    )


def game(**rollout: Any) -> GameType:
    return GameType(
        metadata=ObjectMeta(name="arena", creation_timestamp="2026-11-17T11:00:00Z"),
        spec=GameTypeSpec(
            fleet_spec=FleetSpec(scaling=Scaling(replicas=3), spec=ServerSpec(pod=POD)),
            rollout=Rollout(**rollout),
        ),
        status=GameTypeStatus(
            current_fleet_name="arena-v2", phase="Draining", ready=2, allocated=1
        ),
    )


def taken(**fields: Any) -> Allocation:
    spec = AllocationSpec(server_uid="u0", match="final", **fields)
    return Allocation(metadata=ObjectMeta(name="arena-v1-0"), spec=spec)


ASKED = ShutdownAsked(why="Deleted", since="2026-11-17T11:59:00Z", deadline="2026-11-17T12:10:00Z")


@pytest.mark.parametrize(
    ("around", "words"),
    [
        (Around(server=server()), "It belongs to no fleet"),
        (Around(server=server(), fleet=fleet()), "Its fleet arena-v1 wants 3 servers and has 3."),
        (Around(server=server(), fleet=fleet()), "its game is asked first"),
        (Around(server=server(), fleet=fleet(wanted=1)), "wants 1 server and has 3."),
        (Around(server=server(since="2026-11-17T11:59:30Z")), "arena-v1-0 has been Ready for 30s."),
        (Around(server=server()), "arena-v1-0 is Ready."),
        (Around(server=server(operation=Operation.MAINTAIN), fleet=fleet()), "is Maintain"),
        (
            Around(server=server("Allocated"), allocation=taken(holder="lobby"), fleet=fleet()),
            "It is allocated to match final by lobby, until that is released.",
        ),
        (
            Around(server=server("Allocated"), allocation=taken(lease_seconds=30), fleet=fleet()),
            "with a lease of 30 s",
        ),
        (
            Around(server=server("Allocated"), fleet=fleet("Idle"), game=game(soft_deadline="1h")),
            "It is asked to end 1h after its fleet was replaced.",
        ),
        (
            Around(server=server(), fleet=fleet("Idle"), game=game(hard_deadline="2h")),
            "It is ended 2h after its fleet was replaced.",
        ),
        (
            Around(server=server(), fleet=fleet("Idle"), game=game()),
            "It is of an older version: new matches go to arena-v2.",
        ),
        (
            Around(server=server("Draining", deleting=True, shutdown=ASKED), fleet=fleet("All")),
            "It is asked to end: a new version replaces it.",
        ),
        (
            Around(server=server("Draining", deleting=True, shutdown=ASKED)),
            "Its game has not allowed it yet (POST /allow_delete).",
        ),
        (
            Around(server=server("Draining", deleting=True, shutdown=ASKED)),
            "its time ends in 600 s, at 2026-11-17T12:10:00Z.",
        ),
        (
            Around(
                server=server(
                    "Draining",
                    shutdown=ASKED,
                    allowed=Allowed(value=True, since="2026-11-17T11:59:30Z"),
                    deletion=Deletion(idle=Idle.ASK, stabilization="1m"),
                )
            ),
            "Its game has allowed it for 30s. It has to allow it for 1m without a break.",
        ),
        (Around(server=server("Draining", shutdown=ASKED), pod=False), "Its pod is gone"),
        (Around(server=server(deleting=True)), "has not asked its game yet"),
        (Around(server=server(), retired=True), "taken it out of the fleet"),
        (
            Around(server=server("Draining", shutdown=ASKED, allow_force_delete=True)),
            "does not wait for the game",
        ),
    ],
)
def test_why_a_server_is_still_there(around: Around, words: str) -> None:
    assert words in " ".join(explain(around, NOW))


def test_of_a_server_with_a_match_it_goes_without_saying_that_its_game_is_asked() -> None:
    around = Around(server=server("Allocated"), allocation=taken(), fleet=fleet())
    assert "asked first" not in " ".join(explain(around, NOW))


def test_an_allocation_of_a_predecessor_says_nothing() -> None:
    other = msgspec.structs.replace(taken(), spec=AllocationSpec(server_uid="older"))
    assert "allocated" not in " ".join(explain(Around(server=server(), allocation=other), NOW))


def test_the_tables() -> None:
    ready = server(address="10.0.0.1", node="n1")
    ready.status.ports = [ServerPort(name="game", port=7001)]
    text = servers_table([view_server(ready, taken())])
    assert text.splitlines()[0].split() == [
        *("SERVER", "STATE", "ADDRESS", "NODE", "VERSION", "MATCH", "AGE")
    ]
    assert "10.0.0.1:7001" in text
    assert "final" in text
    lines = games_table([view_game(game()), view_fleet(fleet())]).splitlines()
    assert lines[1].split()[:6] == ["arena", "3", "2", "1", "Draining", "arena-v2"]
    assert lines[2].split()[:2] == ["arena-v1", "3"]


def test_a_line_for_each_change() -> None:
    before = view_server(server(), None)
    after = view_server(server("Draining", shutdown=ASKED), None)
    (line,) = changes({before.name: before}, {after.name: after}, as_json=False)
    assert line.endswith("arena-v1-0 Draining (Deleted, until 2026-11-17T12:10:00Z)")
    assert changes({after.name: after}, {after.name: after}, as_json=False) == []
    (gone,) = changes({after.name: after}, {}, as_json=True)
    assert msgspec.json.decode(gone)["gone"] is True


@pytest.mark.parametrize("name", ["", "../x", "a b", "A", "-a", "a" * 64])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(GameError):
        checked("game", name)


@pytest.mark.parametrize("match", ["", "a/b", "a" * 129, "a?b", " a"])
def test_what_is_no_match(match: str) -> None:
    with pytest.raises(GameError, match="at most 128 characters: letters, digits and"):
        checked("match", match)


@pytest.mark.parametrize("match", ["a", "a" * 128, "team@x:1", "a+b~c=d.", "0_-"])
def test_a_match_is_what_the_server_takes_for_one(match: str) -> None:
    assert checked("match", match) == match


class OfNone(ClusterGames):
    """A cluster that has one answer, and counts how often it is asked."""

    def __init__(self, error: Exception) -> None:
        self.error, self.asked = error, 0

    async def allocate(self, game: str, match: str) -> Any:
        self.asked += 1
        raise self.error


async def test_a_game_that_is_not_there_is_not_waited_for() -> None:
    games = OfNone(GameError("there is no game chess"))
    with pytest.raises(GameError, match="there is no game chess"):
        await waited(games, "chess", "m", 60.0)
    assert games.asked == 1


async def test_a_server_that_is_not_free_is_waited_for() -> None:
    games = OfNone(NoneFree("no server of chess is free"))
    with pytest.raises(NoneFree):
        await waited(games, "chess", "m", 0.01)
    assert games.asked == 2


class Shelf:
    """Servers and Allocations of an API server, and what somebody else creates before us."""

    def __init__(self, *servers: str, before: tuple[Allocation, ...] = ()) -> None:
        self.revision = 100
        self.servers = [server() for _ in servers]
        for each, name in zip(self.servers, servers, strict=True):
            each.metadata.name, each.metadata.uid = name, f"of-{name}"
            each.metadata.namespace = "play"
        self.allocations: dict[str, Allocation] = {}
        self.before = list(before)  # one at each creation of ours

    def put(self, made: Allocation) -> Allocation:
        self.revision += 1
        made.metadata.resource_version = str(self.revision)
        made.metadata.uid = f"a{self.revision}"
        self.allocations[made.metadata.name] = made
        return made

    async def create(self, made: Allocation) -> Allocation:
        if self.before:
            self.put(self.before.pop(0))
        if made.metadata.name in self.allocations:
            raise AlreadyExists(409, "AlreadyExists", "it is there")
        return self.put(made)

    async def get(self, kind: type[Any], name: str, namespace: str) -> Any:
        if kind is GameType:
            found = game()
            found.status.current_fleet_name = "arena-v1"
            return found
        if kind is not Server:
            raise NotFound(404, "NotFound", "it is not there")
        return next(each for each in self.servers if each.metadata.name == name)

    async def list(self, kind: type[Any], namespace: str, labels: str = "") -> Listing[Any]:
        items = self.servers if kind is Server else list(self.allocations.values())
        return Listing(items=items, resource_version=str(self.revision))


def retired(*servers: str) -> Allocation:
    spec = AllocationSpec(
        retires={name: f"of-{name}" for name in servers}, retired=True, fleet="arena-v1"
    )
    return Allocation.named(names.retiring(servers[0]), "play", spec=spec)


def of_match(name: str, match: str = "final") -> Allocation:
    spec = AllocationSpec(server_uid=f"of-{name}", game="arena", match=match)
    return Allocation.named(name, "play", spec=spec)


async def given(shelf: Shelf) -> str:
    client: Any = shelf
    return (await ClusterGames(client, "play").allocate("arena", "final")).name


async def test_a_server_that_its_fleet_has_retired_is_given_to_nobody() -> None:
    shelf = Shelf("a", "b")
    shelf.put(retired("a"))
    assert await given(shelf) == "b"
    assert "a" not in shelf.allocations
    shelf.put(retired("b"))
    assert await given(shelf) == "b", "the match was earlier, and has it"


async def test_a_list_of_its_fleet_is_why_no_match_can_get_a_server() -> None:
    shelf = Shelf("a", "b")
    shelf.put(retired("a"))
    client: Any = shelf
    games = ClusterGames(client, "play")
    assert (await games.around("a")).retired
    assert not (await games.around("b")).retired
    shelf.put(of_match("a"))  # too late
    assert (await games.around("a")).retired
    shelf.put(of_match("b"))
    around = await games.around("b")
    assert around.allocation is not None
    assert not around.retired


async def test_a_server_that_its_fleet_retires_meanwhile_is_given_to_nobody() -> None:
    assert await given(Shelf("a", "b", before=(retired("a"),))) == "b"
    with pytest.raises(NoneFree):
        await given(Shelf("a", before=(retired("a"),)))


async def test_of_two_who_ask_for_a_match_at_once_both_get_what_was_taken_first() -> None:
    shelf = Shelf("a", "b", before=(of_match("b"),))
    assert await given(shelf) == "b"
    assert await given(shelf) == "b"


async def test_a_server_that_another_match_took_meanwhile_is_passed_over() -> None:
    assert await given(Shelf("a", "b", before=(of_match("a", "other"),))) == "b"


# The commands themselves ----------------------------------------------------------------------


class Asked(ClusterGames):
    """One server, which its game keeps for as long as it likes."""

    def __init__(self, *, looks: int) -> None:
        self.looks = looks  # until it is gone
        self.retired: list[str] = []

    async def retire(self, name: str) -> None:
        self.retired.append(name)

    async def is_there(self, name: str) -> bool:
        self.looks -= 1
        return self.looks >= 0

    async def around(self, name: str) -> Around:
        return Around(server=server("Draining", shutdown=ASKED), fleet=fleet())

    async def follow(self, game: str = "") -> AsyncGenerator[dict[str, ServerView], None]:
        for state in ("Ready", "Allocated"):
            yield {"arena-v1-0": view_server(server(state), None)}
        yield {}


def run(monkeypatch: pytest.MonkeyPatch, games: ClusterGames, *words: str) -> Result:
    @contextlib.asynccontextmanager
    async def cluster(*_: object) -> AsyncIterator[ClusterGames]:
        yield games

    monkeypatch.setattr(commands, "cluster_games", cluster)
    monkeypatch.setattr(commands, "LOOK_EVERY", 0.001)
    return CliRunner().invoke(commands.app, words)


def test_a_server_is_drained_and_waited_for_if_one_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    games = Asked(looks=99)
    done = run(monkeypatch, games, "drain", "arena-v1-0")
    assert (done.exit_code, done.stdout) == (0, "arena-v1-0 is asked to end\n")
    assert games.retired == ["arena-v1-0"]
    done = run(monkeypatch, Asked(looks=3), "drain", "arena-v1-0", "--wait", "60")
    assert (done.exit_code, done.stdout) == (0, "arena-v1-0 is gone\n")


def test_a_server_that_does_not_go_in_time_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, Asked(looks=10**9), "drain", "arena-v1-0", "--wait", "0.01")
    assert done.exit_code != 0
    assert "arena-v1-0 is still there after 0.01 s." in str(done.exception)
    assert "Its game has not allowed it yet" in str(done.exception)


def test_a_watch_prints_a_line_for_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, Asked(looks=0), "watch", "arena")
    words = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines()]
    assert words == ["arena-v1-0 Ready", "arena-v1-0 Allocated", "arena-v1-0 is gone"]
