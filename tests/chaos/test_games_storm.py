"""A storm over games: two operators as real processes and two replicas of the server, killed again
and again, while matches come and go, versions change, pods crash, nodes are cut and come back, and
API server and etcd restart.

Afterwards nobody who played was cut, no server was given to two matches, no number and no port was
used twice, and nothing is left over.

    EDGEWISE_CHAOS_SEED=<seed> pytest tests/chaos/test_games_storm.py

plays one storm again, as far as that is possible with real processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewise.api.games import Allocation, GameType, Server
from edgewise.gameservers import names
from edgewise.gameservers.allocation.request import AllocationRequest
from edgewise.gameservers.domain import GAMESERVERS
from edgewise.kube.errors import Forbidden, KubeError, NotFound
from edgewise.kube.kinds.core import Node, Pod
from edgewise.runtime.errors import ServiceError
from edgewise.testing.eventually import eventually
from tests.chaos.game_world import (
    PORTS,
    GameWorld,
    Referee,
    game_world,
    operator_kubeconfig,
)
from tests.chaos.harness import operators, rage
from tests.chaos.server_replica import ServerReplica, server_client
from tests.integration.conftest import ApiServer

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
ONLY = os.environ.get("EDGEWISE_CHAOS_SEED", "")
SEEDS = [int(ONLY)] if ONLY else list(range(12 if LONG else 1))
SECONDS = 40.0 if LONG else 12.0
PATIENCE = 60.0
GAME = {"ports": [{"name": "play", "containerPort": 7777}], "nodeLossSeconds": 1}
IMAGES = ("game:1", "game:2", "game:3")

pytestmark = pytest.mark.chaos


class Told(msgspec.Struct, frozen=True):
    """What a caller was told."""

    server: str
    uid: str  # of the server
    allocation: str


class People:
    """Play, leave, change versions and numbers, and do what they should not."""

    def __init__(
        self,
        world: GameWorld,
        referee: Referee,
        replicas: list[ServerReplica],
        chance: random.Random,
    ) -> None:
        self._world = world
        self._referee = referee
        self._replicas = replicas
        self._chance = chance
        self._matches = 0
        self._calls: set[asyncio.Task[None]] = set()
        self.playing: dict[str, Told] = {}
        self.given: dict[str, str] = {}  # uid of a server: the match that has it, or had it last
        self.solo: set[str] = set()
        self.told = 0

    async def act(self) -> None:
        does = self._chance.choices(
            (
                self.call,
                self.leave,
                self.scale,
                self.change_version,
                self.crash,
                self.meddle,
                self.cut_node,
                self.kill_replica,
            ),
            (12, 5, 2, 1, 1, 2, 1, 1),
        )[0]
        with contextlib.suppress(KubeError, ServiceError):
            await does()

    async def call(self) -> None:
        """For a server, without waiting; now and then for a match that has one."""
        again = self.playing and self._chance.random() < 0.3
        match = self._chance.choice(sorted(self.playing)) if again else f"m{self._matches}"
        self._matches += not again
        for replica in self._chance.sample(self._replicas, self._chance.choice((1, 2))):
            task = asyncio.create_task(self._call(replica, match))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _call(self, replica: ServerReplica, match: str) -> None:
        half, before = replica.half, self.playing.get(match)
        with contextlib.suppress(KubeError, ServiceError):
            given = await half.claims.allocate(
                half.games.find_game("arena"), "people", AllocationRequest(match=match)
            )
            if half is not replica.half:
                return  # it was killed meanwhile, and answered nobody
            meta, spec = given.allocation.metadata, given.allocation.spec
            found = Told(meta.name, spec.server_uid, meta.uid)
            self._note(match, found, before)

    def _note(self, match: str, found: Told, before: Told | None) -> None:
        self.told += 1
        self._referee.hold(found.allocation)
        other = self.given.setdefault(found.uid, match)
        if other != match:
            self._referee.broken.append(f"{found.server} was given to {other} and to {match}")
        now = self.playing.setdefault(match, found)
        if now is not found and now != found and before in (None, now):
            self._referee.broken.append(f"{match} was told {now} and then {found}")

    async def settled(self) -> None:
        if self._calls:
            await asyncio.wait(self._calls, timeout=30)

    async def leave(self) -> None:
        """By a release, or by a game that allows its end."""
        if not self.playing or self._calls:
            return
        match = self._chance.choice(sorted(self.playing))
        found = self.playing.pop(match)
        self._referee.permit(found.allocation)
        server = await self._world.get(found.server)
        if server.status.state == "Draining" or self._chance.random() < 0.5:
            await self._world.say(found.server, allowed=True)
            await self._world.delete(Server, found.server)
        else:
            await self._release(found)

    async def _release(self, found: Told) -> None:
        namespace = self._world.namespace
        with contextlib.suppress(NotFound):
            await self._world.operator_client.delete(
                Allocation, found.server, namespace, uid=found.allocation
            )
            self.given.pop(found.uid, None)

    async def scale(self) -> None:
        await self._change({"scaling": {"replicas": self._chance.randrange(1, 5)}})

    async def change_version(self) -> None:
        image = self._chance.choice(IMAGES)
        pod = {"pod": {"containers": [{"name": "game", "image": image}]}}
        await self._change({"spec": pod})

    async def _change(self, spec: dict[str, Any]) -> None:
        body = {"spec": {"fleetSpec": spec}}
        await self._world.client.patch(GameType, "arena", self._world.namespace, body=body)

    async def crash(self) -> None:
        """One that nobody plays on: its match would end with it, as it should."""
        if self._calls:
            return
        taken = {each.server for each in self.playing.values()} | self.solo
        idle = [
            each.metadata.name
            for each in await self._world.servers("Ready")
            if each.metadata.name not in taken
        ]
        if idle:
            pod = names.pod_of(self._chance.choice(idle))
            await self._world.nodes.set_pod(pod, ready=False, phase="Failed")

    async def meddle(self) -> None:
        """What nobody may do, or what only asks."""
        world, chance = self._world, self._chance
        pods = [
            each.metadata.name for each in (await world.client.list(Pod, world.namespace)).items
        ]
        if pods:
            grace = chance.choice((0, None))
            with contextlib.suppress(Forbidden):
                await world.client.delete(
                    Pod, chance.choice(pods), world.namespace, grace_seconds=grace
                )
        if self.playing and chance.random() < 0.5:
            match = chance.choice(sorted(self.playing))
            await world.delete(Server, self.playing[match].server)
        name = f"solo{chance.randrange(2)}"
        if name not in self.solo:
            self.solo.add(name)
            await world.server(name, **GAME)

    async def cut_node(self) -> None:
        node = self._chance.choice(self._world.nodes.names)
        await self._world.cut(node, lost=self._chance.random() < 0.4)

    async def kill_replica(self) -> None:
        await self._chance.choice(self._replicas).kill()

    async def calm(self, replicas: int) -> None:
        """Nodes are back, everybody has left, and the game has its number."""
        world = self._world
        for node in world.nodes.names:
            await world.cut(node, lost=False)
            await world.client.patch(Node, node, body={"spec": {"unschedulable": None}})
        await self.settled()
        # Also what a replica took that was killed before it told anybody.
        for each in (await world.client.list(Allocation, world.namespace)).items:
            if not each.spec.retired:
                self._referee.permit(each.metadata.uid)
                with contextlib.suppress(KubeError):
                    await world.operator_client.delete(
                        Allocation, each.metadata.name, world.namespace, uid=each.metadata.uid
                    )
        for name in self.solo:
            await world.server(name, **GAME)  # the API server may have been away
        # Of a version that never failed: fleets whose servers failed give the next one time.
        pod = {"pod": {"containers": [{"name": "game", "image": "game:calm"}]}}
        await self._change({"scaling": {"replicas": replicas}, "spec": pod})


@contextlib.asynccontextmanager
async def replicas_of(api_server: ApiServer, namespace: str) -> AsyncIterator[list[ServerReplica]]:
    async with server_client(api_server) as client:
        made = [ServerReplica(client, namespace, f"r{number}") for number in range(2)]
        try:
            yield made
        finally:
            for each in made:
                await each.stop()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
async def test_nobody_is_cut_and_nothing_is_left_after_a_storm(
    seed: int, api_server: ApiServer, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    async with (
        game_world(api_server) as (world, referee),
        replicas_of(api_server, world.namespace) as replicas,
        operators(
            api_server,
            GAMESERVERS,
            tmp_path,
            kubeconfig=operator_kubeconfig(api_server),
            flags=(f"--game-ports={PORTS}",),
        ) as crew,
    ):
        people = People(world, referee, replicas, chance)
        await world.game(3, server=GAME)
        await world.ready(3, within=60)
        await rage(people.act, crew, api_server, chance, seconds=SECONDS, restarts=LONG)
        assert sum(each.kills for each in crew) >= 2
        assert people.told > 3

        async def well() -> None:
            await people.calm(2)
            await world.at_rest(2, frozenset(people.solo))

        await eventually(well, within=PATIENCE, every=0.5, not_yet=(KubeError,))
        referee.judge()
