"""What happens in the demo of games, act by act. Every act looks whether it worked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from edgewise.api.games import GameAutoscaler, GameType, Server
from edgewise.cli.demo.games.sample import GAME, Player, autoscaler, game_type
from edgewise.cli.demo.play import DemoError
from edgewise.cli.demo.stage import Stage
from edgewise.cli.game.cluster import ClusterGames, NoneFree
from edgewise.cli.game.explain import explain
from edgewise.cli.game.views import ServerView
from edgewise.cli.session.text import clock
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Pod

NAMESPACE = "demo"
PATIENCE = 40.0
LOOK_EVERY = 0.1


class Play:
    def __init__(self, stage: Stage, client: Client) -> None:
        self._stage = stage
        self._client = client
        self._games = ClusterGames(client, NAMESPACE)
        self._players: list[Player] = []

    async def run(self) -> None:
        try:
            await self._three_servers()
            first = await self._a_match("match-1", "ann", "bob")
            await self._a_new_version(first)
            await self._a_drained_server()
            await self._a_number_that_follows()
            await self._the_end()
        finally:
            for player in self._players:
                await player.stop()

    async def _three_servers(self) -> None:
        self._stage.act("A game of three servers: each is a pod with a sidecar")
        began = time.monotonic()
        await self._client.apply(game_type(NAMESPACE, "1"))
        await self._until(self._steady, "three servers ready")
        self._stage.say(f"three servers are ready after {time.monotonic() - began:.1f} s")

    async def _a_match(self, match: str, *names: str) -> ServerView:
        self._stage.act(f"A match is given a server, and {' and '.join(names)} play on it")
        began = time.monotonic()
        server = await self._games.allocate(GAME, match)
        took = (time.monotonic() - began) * 1000
        again = await self._games.allocate(GAME, match)
        if again.name != server.name:
            raise DemoError(f"{match} was given two servers")
        self._stage.say(f"{match} has {server.name} after {took:.0f} ms, at {address(server)}")
        for name in names:
            await self._joins(name, server)
        await self._until(lambda: self._count_players(server.name, len(names)), "players seen")
        self._stage.say("the game has told Edgewise that they play: it may not be deleted now")
        return server

    async def _a_new_version(self, old: ServerView) -> None:
        self._stage.act("A new version comes while they play")
        began = time.monotonic()
        await self._client.apply(game_type(NAMESPACE, "2"))
        await self._until(lambda: self._moved_from(old.fleet), "matches going to the new version")
        self._stage.say(f"new matches go to the new version after {time.monotonic() - began:.1f} s")
        played = [await player.end() for player in self._players]
        self._players.clear()
        for each in played:
            if each.version != "1" or each.server != old.name:
                raise DemoError(f"{each.name} did not play to the end where it began")
            self._stage.say(
                f"{each.name} got {each.coins} coins on version 1, was asked to finish, and was "
                f"never without the board for more than {each.longest_silence * 1000:.0f} ms"
            )
        await self._until(lambda: self._is_gone(old.name), f"{old.name} gone")
        await self._until(self._steady, "only the new version")
        took = time.monotonic() - began
        self._stage.say(f"then {old.name} went; all is of the new version after {took:.1f} s")

    async def _a_drained_server(self) -> None:
        self._stage.act("A server is drained in the middle of a match")
        server = await self._allocated("match-2")
        cleo = await self._joins("cleo", server)
        await self._until(lambda: self._count_players(server.name, 1), "cleo seen")
        await self._games.retire(server.name)
        await self._until(lambda: self._asked(server.name), f"{server.name} asked to end")
        for line in explain(await self._games.around(server.name), clock()):
            self._stage.say(line)
        played = await cleo.end()
        if played.version != "2":
            raise DemoError(f"a new match was given version {played.version}")
        self._players.clear()
        await self._until(lambda: self._is_gone(server.name), f"{server.name} gone")
        await self._until(self._steady, "another server in its place")
        self._stage.say(f"cleo left with {played.coins} coins, and another server is ready")

    async def _a_number_that_follows(self) -> None:
        self._stage.act("An autoscaler keeps two servers free")
        await self._client.apply(autoscaler(NAMESPACE, 2))
        await self._until(lambda: self._wants(2), "two servers")
        await self._until(self._steady, "two servers ready")
        self._stage.say("nobody plays: two servers")
        await self._allocated("match-3")
        await self._until(lambda: self._wants(3), "three servers")
        self._stage.say("one match: three servers")

    async def _the_end(self) -> None:
        self._stage.act("The game is deleted, and all it made goes with it")
        began = time.monotonic()
        await self._client.delete(GameAutoscaler, GAME, NAMESPACE)
        # Nobody is on it, and its game allows it: it need not wait for its timeout.
        await self._client.delete(GameType, GAME, NAMESPACE)
        await self._until(self._nothing_left, "nothing left")
        self._stage.say(f"no pod is left after {time.monotonic() - began:.1f} s")

    # What is done -------------------------------------------------------------------

    async def _joins(self, name: str, server: ServerView) -> Player:
        player = Player(name, address(server))
        self._players.append(player)
        await player.start()
        return player

    async def _allocated(self, match: str) -> ServerView:
        found: list[ServerView] = []

        async def tried() -> bool:
            try:
                found.append(await self._games.allocate(GAME, match))
            except NoneFree:
                return False
            return True

        await self._until(tried, f"a server for {match}")
        return found[0]

    # What is looked at --------------------------------------------------------------

    async def _game(self) -> GameType:
        return await self._client.get(GameType, GAME, NAMESPACE)

    async def _steady(self) -> bool:
        game = await self._game()
        fresh = game.status.observed_generation == game.metadata.generation
        wanted = game.spec.fleet_spec.scaling.replicas
        there = (game.status.ready or 0) + (game.status.allocated or 0)
        return fresh and game.status.phase == "Steady" and there >= wanted

    async def _moved_from(self, fleet: str) -> bool:
        return (await self._game()).status.current_fleet_name not in ("", fleet)

    async def _wants(self, number: int) -> bool:
        return (await self._game()).spec.fleet_spec.scaling.replicas == number

    async def _count_players(self, server: str, number: int) -> bool:
        for player in self._players:
            if not player.playing:
                await player.end()
        found = (await self._client.get(Server, server, NAMESPACE)).status
        protected = found.allowed is not None and found.allowed.value is False
        return protected and found.game is not None and found.game.players == number

    async def _asked(self, server: str) -> bool:
        return (await self._client.get(Server, server, NAMESPACE)).status.shutdown is not None

    async def _is_gone(self, server: str) -> bool:
        return not await self._games.is_there(server)

    async def _nothing_left(self) -> bool:
        try:
            await self._game()
        except NotFound:
            return not (await self._client.list(Pod, NAMESPACE)).items
        return False

    async def _until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not await holds():
            if time.monotonic() > deadline:
                raise DemoError(f"waited {PATIENCE:.0f} s in vain for {what}")
            await asyncio.sleep(LOOK_EVERY)


def address(server: ServerView) -> str:
    if not server.address or "game" not in server.ports:
        raise DemoError(f"{server.name} has no address for players")
    return f"{server.address}:{server.ports['game']}"
