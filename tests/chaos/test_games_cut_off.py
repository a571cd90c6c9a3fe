"""The operator of games killed at any of its writes: a game with two versions, a match that is
played through all of it, a crash, a server that is asked, and nobody is cut, nothing is left."""

from __future__ import annotations

import os
import random

import pytest

from edgewise.api.games import GameType, Server
from edgewise.gameservers import names
from edgewise.gameservers.domain import GAMESERVERS
from edgewise.kube.client import Client
from edgewise.kube.errors import Forbidden, KubeError, NotFound
from edgewise.kube.kinds.core import Pod
from edgewise.testing.eventually import eventually
from tests.chaos.game_world import PORTS, GameWorld, Referee, game_world
from tests.chaos.harness import PATIENCE, CutClient, Trial, survive
from tests.integration.conftest import ApiServer

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
CUTS = 2  # in `make test`
GAME = {"ports": [{"name": "play", "containerPort": 7777}]}

pytestmark = pytest.mark.chaos


class Play:
    """What people do, and what must hold in the end."""

    def __init__(self, world: GameWorld, referee: Referee) -> None:
        self.world = world
        self.referee = referee

    async def play(self, client: Client, namespace: str) -> None:
        world = self.world
        await world.game(2, server=GAME)
        first, _ = await world.ready(2)
        taken = await world.allocate(first.metadata.name)
        self.referee.hold(taken.metadata.uid)
        await world.server("solo", **GAME)
        solo = await world.becomes("Ready", "solo", within=30)
        self.referee.ask_only(solo.metadata.uid)
        await world.delete(Server, "solo")
        with pytest.raises(Forbidden):
            await client.delete(Pod, names.pod_of("solo"), namespace, grace_seconds=0)
        await self.new_version()
        await self.crash_one()
        await world.becomes("Draining", "solo", within=30)
        self.referee.allow(solo.metadata.uid)
        await world.say("solo", allowed=True)
        await world.is_gone(Server, "solo", within=30)
        # Who plays on the old version is asked only now, and allows it.
        await world.delete(Server, first.metadata.name)
        playing = await world.becomes("Draining", first.metadata.name, within=30)
        assert playing.metadata.deleting
        self.referee.permit(taken.metadata.uid)
        await world.say(first.metadata.name, allowed=True)
        await eventually(lambda: world.at_rest(3), within=PATIENCE, every=0.1, not_yet=(KubeError,))
        await world.delete(GameType, "arena")

    async def new_version(self) -> None:
        """With one server more."""
        world = self.world
        before = (await world.the_game()).status.current_fleet_name
        body = {
            "fleetSpec": {
                "scaling": {"replicas": 3},
                "spec": {"pod": {"containers": [{"name": "game", "image": "game:2"}]}},
            }
        }
        await world.client.patch(GameType, "arena", world.namespace, body={"spec": body})

        async def moved() -> bool:
            return (await world.the_game()).status.current_fleet_name != before

        await eventually(moved, within=30, every=0.05, not_yet=(KubeError,))

    async def crash_one(self) -> None:
        world = self.world
        victim = (await world.ready(3))[0]
        await world.nodes.set_pod(names.pod_of(victim.metadata.name), ready=False, phase="Failed")
        await world.is_gone(Server, victim.metadata.name, within=30)

    async def well(self, client: Client, namespace: str) -> None:
        await self.world.is_empty()


async def run(
    api_server: ApiServer, cut_at: int | None = None, *, after: bool = False
) -> CutClient:
    async with game_world(api_server) as (world, referee):
        play = Play(world, referee)

        trial = Trial(
            GAMESERVERS,
            play.play,
            play.well,
            operator=world.operator_client,
            flags={"game-ports": PORTS},
        )
        return await survive(trial, world.client, world.namespace, cut_at, after=after)


@pytest.mark.timeout(3600)
async def test_nobody_is_cut_and_nothing_is_left_when_the_operator_is_killed_at_any_write(
    api_server: ApiServer,
) -> None:
    writes = (await run(api_server)).writes
    assert writes > 20
    cuts = [(cut_at, after) for cut_at in range(1, writes + 1) for after in (False, True)]
    for cut_at, after in cuts if LONG else random.sample(cuts, CUTS):
        moment = f"{'after' if after else 'before'} write {cut_at} of {writes}"
        try:
            first = await run(api_server, cut_at, after=after)
        except (AssertionError, NotFound) as error:
            raise AssertionError(f"killed {moment}: {error}") from error
        # How many writes there are is a matter of who comes first; nearly all are reached.
        assert first.dead.is_set() or cut_at > writes // 2, f"not killed {moment}"
