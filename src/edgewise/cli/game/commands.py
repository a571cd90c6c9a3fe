"""`edgewise game`: games and their servers, as a person at a shell works with them."""

import asyncio
import contextlib
import dataclasses
import re
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
import typer

from edgewise.cli.game.cluster import ClusterGames, GameError, NoneFree, cluster_games
from edgewise.cli.game.explain import explain as explained
from edgewise.cli.game.server import allocate as allocate_by_server
from edgewise.cli.game.views import GameView, ServerView
from edgewise.cli.numbers import countable
from edgewise.cli.options import AsJson, InNamespace, with_options
from edgewise.cli.session.text import Row, age, clock, json_of, table
from edgewise.gameservers.allocation.request import MATCH_ID, MATCH_RULE

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
NAME_RULE = (
    "must have at most 63 characters: small letters, digits, dashes and dots, and begin and end "
    "with a letter or a digit"
)
MATCH = re.compile(MATCH_ID)  # as the server has it
LOOK_EVERY = 0.5
GAMES = ("NAME", "WANTED", "READY", "ALLOCATED", "PHASE", "FLEET", "AGE")
SERVERS = ("SERVER", "STATE", "ADDRESS", "NODE", "VERSION", "MATCH", "AGE")


def game_completion(incomplete: str) -> list[str]:
    return _known(incomplete, "games")


def server_completion(incomplete: str) -> list[str]:
    return _known(incomplete, "servers")


def _known(incomplete: str, what: str) -> list[str]:
    """Names that begin so; none where no cluster answers at once."""

    async def look() -> list[str]:
        async with asyncio.timeout(2.0), cluster_games(None, None, None) as games:
            found = await (games.games() if what == "games" else games.servers())
            return [each.name for each in found if each.name.startswith(incomplete)]

    with contextlib.suppress(Exception):
        return asyncio.run(look())
    return []


Game = Annotated[
    str, typer.Argument(help="A GameType, or a Fleet.", autocompletion=game_completion)
]
MaybeGame = Annotated[
    str, typer.Argument(help="A GameType, or a Fleet.", autocompletion=game_completion)
]
ServerName = Annotated[
    str, typer.Argument(help="The name of the server.", autocompletion=server_completion)
]


@dataclasses.dataclass(frozen=True)
class Where(InNamespace):
    """Whose games are meant."""

    def act(self, do: Callable[[ClusterGames], Awaitable[None]]) -> None:
        async def run() -> None:
            async with cluster_games(self.kubeconfig, self.context, self.namespace) as games:
                await do(games)

        asyncio.run(run())


somewhere = with_options("where", Where)


def checked(what: str, given: str) -> str:
    pattern, rule = (MATCH, MATCH_RULE) if what == "match" else (NAME, NAME_RULE)
    if not pattern.fullmatch(given):
        raise GameError(f"{given!r} cannot be the name of a {what}: it {rule}")
    return given


@app.command("list")
@somewhere
def list_games(game: MaybeGame = "", *, where: Where, as_json: AsJson = False) -> None:
    """The games; with the name of one, its servers."""

    async def do(games: ClusterGames) -> None:
        if game:
            servers = await games.servers(checked("game", game))
            print(json_of(servers) if as_json else servers_table(servers))
            return
        found = await games.games()
        if as_json:
            print(json_of(found))
        elif found:
            print(games_table(found))
        else:
            print("There are no games here.", file=sys.stderr)

    where.act(do)


@app.command()
@somewhere
def watch(game: MaybeGame = "", *, where: Where, as_json: AsJson = False) -> None:
    """A line for each change of a server, until Ctrl-C."""

    async def do(games: ClusterGames) -> None:
        before: dict[str, ServerView] = {}
        async with contextlib.aclosing(games.follow(game and checked("game", game))) as snapshots:
            async for after in snapshots:
                for line in changes(before, after, as_json=as_json):
                    print(line, flush=True)
                before = after

    where.act(do)


@app.command()
@somewhere
def allocate(
    game: Game,
    match: Annotated[str, typer.Argument(help="What you call the match: it gets one server.")],
    server: Annotated[
        str | None,
        typer.Option(
            help="Ask the server at this URL instead of a cluster; the token is in EDGEWISE_TOKEN.",
            envvar="EDGEWISE_SERVER",
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(help="Wait for so many seconds if none is free.", min=0, callback=countable),
    ] = 0.0,
    *,
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Take a server for a match. The same match once more gets the same server."""
    checked("game", game)
    checked("match", match)

    def say(found: ServerView) -> None:
        at = ", ".join(f"{name} at {found.address}:{port}" for name, port in found.ports.items())
        print(json_of(found) if as_json else f"{match} has {found.name}: {at or found.address}")

    if server is not None:
        say(asyncio.run(allocate_by_server(server, game, match, wait)))
        return

    async def do(games: ClusterGames) -> None:
        say(await waited(games, game, match, wait))

    where.act(do)


async def waited(games: ClusterGames, game: str, match: str, wait: float) -> ServerView:
    deadline = time.monotonic() + wait
    while True:
        try:
            return await games.allocate(game, match)
        except NoneFree:  # a game that is not there is not waited for
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(LOOK_EVERY)


@app.command()
@somewhere
def drain(
    server: ServerName,
    wait: Annotated[
        float,
        typer.Option(help="Wait for so many seconds until it is gone.", min=0, callback=countable),
    ] = 0.0,
    *,
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Ask the game of a server to end. Its fleet makes another one."""

    async def do(games: ClusterGames) -> None:
        await games.retire(checked("server", server))
        deadline = time.monotonic() + wait
        while True:
            gone = not await games.is_there(server)
            if gone or time.monotonic() >= deadline:
                break
            await asyncio.sleep(LOOK_EVERY)
        if wait and not gone:
            why = " ".join(explained(await games.around(server), clock()))
            raise GameError(f"{server} is still there after {wait:g} s. {why}")
        words = f"{server} is gone" if gone else f"{server} is asked to end"
        print(json_of({"name": server, "gone": gone}) if as_json else words)

    where.act(do)


@app.command()
@somewhere
def explain(server: ServerName, *, where: Where, as_json: AsJson = False) -> None:
    """Why a server is still there, and what would make it go."""

    async def do(games: ClusterGames) -> None:
        lines = explained(await games.around(checked("server", server)), clock())
        print(json_of({"name": server, "why": lines}) if as_json else "\n".join(lines))

    where.act(do)


# Text -----------------------------------------------------------------------------------


def games_table(found: list[GameView]) -> str:
    now = clock()
    rows: list[Row] = [
        (
            each.name,
            str(each.wanted),
            str(each.ready),
            str(each.allocated),
            each.phase or "-",
            each.fleet or "-",
            age(each.created, now),
        )
        for each in sorted(found, key=lambda one: one.name)
    ]
    notes = [f"{each.name}: {each.trouble}" for each in found if each.trouble]
    return "\n".join([table(GAMES, rows), *notes])


def servers_table(found: list[ServerView]) -> str:
    now = clock()
    rows: list[Row] = [
        (
            each.name,
            each.state,
            address_of(each),
            each.node or "-",
            each.version or "-",
            each.match or "-",
            age(each.created, now),
        )
        for each in sorted(found, key=lambda one: (one.fleet, one.created or "", one.name))
    ]
    return table(SERVERS, rows)


def address_of(server: ServerView) -> str:
    if not server.address:
        return "-"
    ports = ",".join(str(port) for port in server.ports.values())
    return f"{server.address}:{ports}" if ports else server.address


def changes(
    before: dict[str, ServerView], after: dict[str, ServerView], *, as_json: bool
) -> list[str]:
    """One line for each server that came, changed or went."""
    stamp = clock().isoformat(timespec="seconds").replace("+00:00", "Z")
    lines = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        shown = new or old
        if as_json and shown is not None:
            change = {"time": stamp, "gone": new is None, **msgspec.to_builtins(shown)}
            lines.append(msgspec.json.encode(change).decode())
        elif new is None:
            lines.append(f"{stamp} {name} is gone")
        else:
            match = f" for {new.match}" if new.match else ""
            why = f" ({new.why}, until {new.deadline})" if new.why else ""
            where = f" at {address_of(new)}" if new.address else ""
            lines.append(f"{stamp} {name} {new.state}{match}{where}{why}")
    return lines
