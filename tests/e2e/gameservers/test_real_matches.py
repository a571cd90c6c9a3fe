"""`make chaos` on real pods: players of the sample game through a new version and a drain, faults
of all programs while matches are played, and a node that is cut and comes back.

In the test command the demo of games and `test_protection.py` are the sample of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import sys
import time
from collections import Counter
from typing import Any

import pytest

from edgewise.api.games import Allocation, Fleet, GameType, Server
from edgewise.cli.demo.games.sample import FOLDER, GAME, Player, game_type, image
from edgewise.cli.demo.play import DemoError
from edgewise.cli.game.cluster import ClusterGames, NoneFree
from edgewise.cli.game.views import ServerView
from edgewise.gameservers import names
from edgewise.kube.errors import KubeError, NotFound
from edgewise.kube.kinds.core import Node, Pod
from edgewise.local import faults
from edgewise.local.images.building import build_app
from edgewise.local.images.load import load, nodes_of
from edgewise.testing.eventually import eventually
from edgewise.workloads.deadlines import moment
from tests.e2e.gameservers.conftest import NAMESPACE, Games, game
from tests.e2e.gameservers.test_protection import drain, plays

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
TIMEOUT = 30.0

_log = logging.getLogger(__name__)

pytestmark = [
    pytest.mark.root,
    pytest.mark.chaos,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]


class Table:
    """A match: its server, two players, and perhaps one who never leaves."""

    def __init__(self, server: ServerView, players: list[Player], stays: Player | None) -> None:
        self.server = server
        self.players = players
        self.stays = stays
        self.deleted_at = float("inf")
        self.deadline = float("inf")

    async def watch(self, games: Games) -> None:
        """Until its pod is deleted: when that was asked for, and what its deadline was."""
        while True:
            with contextlib.suppress(KubeError):
                server = await games.client.get(Server, self.server.name, NAMESPACE)
                asked = server.status.shutdown
                if asked is not None:
                    self.deadline = moment(asked.deadline) or self.deadline
            try:
                meta = (await games.pod(self.server.name)).metadata
            except NotFound:
                self.deleted_at = time.time()
                return
            except KubeError:
                continue
            if meta.deleting:
                grace = meta.deletion_grace_period_seconds or 0
                self.deleted_at = (moment(meta.deletion_timestamp) or 0.0) - grace
                return
            await asyncio.sleep(0.2)


class Round:
    """Five matches of two players; one player of each round never leaves."""

    def __init__(self, games: Games, version: str) -> None:
        self.games = games
        self.version = version
        self.tables: list[Table] = []
        self.watching: list[asyncio.Task[None]] = []

    async def begin(self, tables: int = 5) -> None:
        cluster = ClusterGames(self.games.client, NAMESPACE)
        for number in range(tables):
            server = await self.allocated(cluster, f"v{self.version}-{number}")
            address = f"{server.address}:{server.ports['game']}"
            who = [Player(f"{name}{number}", address) for name in ("ann", "bob")]
            stays = who[0] if not number else None
            for player in who:
                if player is stays:
                    await stay(player)
                else:
                    await player.start(seconds=300)
            table = Table(server, who, stays)
            self.tables.append(table)
            self.watching.append(asyncio.create_task(table.watch(self.games)))
        for table in self.tables:
            await eventually(lambda table=table: self.protected(table), within=30)

    async def allocated(self, cluster: ClusterGames, match: str) -> ServerView:
        found: list[ServerView] = []

        async def tried() -> bool:
            found.append(await cluster.allocate(GAME, match))
            return True

        await eventually(tried, within=60, every=0.3, not_yet=(NoneFree,))
        return found[0]

    async def protected(self, table: Table) -> bool:
        found = (await self.games.client.get(Server, table.server.name, NAMESPACE)).status
        said = found.game.players if found.game is not None else 0
        return said == 2 and found.allowed is not None and found.allowed.value is False

    async def leave(self, *, nodes: tuple[str, ...]) -> float:
        """Those of these nodes are told, leave by themselves, and were never cut."""
        worst = 0.0
        for table in self.tables:
            if table.server.node not in nodes:
                continue
            for player in table.players:
                if player is not table.stays:
                    played = await player.end()
                    assert (played.server, played.version) == (table.server.name, self.version)
                    assert played.told_to_end
                    worst = max(worst, played.longest_silence)
        return worst

    async def end(self) -> None:
        for task in self.watching:
            task.cancel()
        for table in self.tables:
            for player in table.players:
                await player.stop()


async def stay(player: Player) -> None:
    """One who plays on though told to leave."""
    player._process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "coin_rush.client", player.address, "--name", player.name, "--seconds", "300"),
        cwd=FOLDER,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )


def sample(version: str) -> dict[str, Any]:
    made = game_type(NAMESPACE, version)
    spec = made["spec"]["fleetSpec"]
    spec["scaling"] = {"replicas": 5}
    spec["spec"]["timeout"] = f"{TIMEOUT:.0f}s"
    return made


async def steady(games: Games, ready: int) -> None:
    found = await games.client.get(GameType, GAME, NAMESPACE)
    assert found.status.observed_generation == found.metadata.generation
    assert found.status.phase == "Steady", found.status
    assert (found.status.ready or 0) >= ready, found.status


async def players_through_a_version_and_a_drain(games: Games) -> None:
    archive = build_app(image(), lambda *_: None).archive
    await asyncio.to_thread(load, archive, nodes_of([games.cluster]))
    await games.client.apply(sample("1"))
    await eventually(lambda: steady(games, 5), within=90)
    nodes = tuple(games.cluster.spec.node_names)
    first, second = Round(games, "1"), Round(games, "2")
    try:
        await first.begin()
        await games.client.apply(sample("2"))
        worst = await first.leave(nodes=nodes)
        await nobody_was_cut(games, first.tables)
        await eventually(lambda: steady(games, 5), within=90)
        await second.begin()
        node = second.tables[0].server.node or ""
        began = time.monotonic()
        draining = asyncio.create_task(games.kubectl(*drain(node, "--timeout=120s"), timeout=150))
        worst = max(worst, await second.leave(nodes=(node,)))
        status, text = await draining
        assert status == 0, text
        assert time.monotonic() - began < TIMEOUT + 30, "a drain ends by its deadline"
        there = [each for each in second.tables if each.server.node == node]
        await nobody_was_cut(games, there)
        # Who plays on the other node plays on.
        for table in second.tables:
            if table not in there:
                assert all(player.playing for player in table.players)
        _log.info("20 players, longest silence %.0f ms", worst * 1000)
    finally:
        await first.end()
        await second.end()
        await games.client.delete(GameType, GAME, NAMESPACE)
        await games.kubectl("uncordon", *nodes)
    await games.is_gone(GameType, GAME, within=90)


async def nobody_was_cut(games: Games, tables: list[Table]) -> None:
    """Each pod went after its players had left, or at its deadline."""
    for table in tables:
        await games.is_gone(Server, table.server.name, within=TIMEOUT + 60)
        if table.stays is not None:
            assert table.deleted_at >= table.deadline - 1.0, (table.deleted_at, table.deadline)
            with pytest.raises(DemoError, match="silent"):
                await table.stays.end()


class Faults:
    """What is broken while matches are played."""

    CONTROL = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager")

    def __init__(self, games: Games, servers: list[str], chance: random.Random) -> None:
        self._games = games
        self._servers = servers
        self._chance = chance
        self.done: list[str] = []

    async def one(self) -> None:
        does = self._chance.choice(
            (self.operator, self.control_plane, self.kubelet, self.sidecar, self.delete)
        )
        self.done.append(does.__name__)
        await does()

    async def operator(self) -> None:
        async with self._games.without_operator():
            await asyncio.sleep(self._chance.random() * 3)

    async def control_plane(self) -> None:
        name = self._chance.choice(self.CONTROL)
        await asyncio.to_thread(faults.kill, self._games.cluster, name)

    async def kubelet(self) -> None:
        node = self._chance.choice(self._games.cluster.spec.node_names)
        await asyncio.to_thread(faults.kill, self._games.cluster, f"{node}/kubelet")

    async def sidecar(self) -> None:
        pod = names.pod_of(self._chance.choice(self._servers))
        await self._games.kubectl(
            "exec", pod, "-c", "edgewise-sidecar", "--", "sh", "-c", "kill -9 1"
        )

    async def delete(self) -> None:
        pod = names.pod_of(self._chance.choice(self._servers))
        await self._games.kubectl("delete", "pod", pod, "--grace-period=0", "--force")


async def matches_go_on_through_faults(games: Games, seconds: float = 90.0) -> None:
    await games.make(Fleet, "arena", {"scaling": {"replicas": 4}, "spec": game()})
    servers: list[Server] = []

    async def ready() -> None:
        nonlocal servers
        servers = [
            each
            for each in (await games.client.list(Server, NAMESPACE)).items
            if each.status.state == "Ready"
        ]
        assert len(servers) == 4

    await eventually(ready, within=60)
    playing = servers[:3]
    for each in playing:
        await games.allocate(each.metadata.name)
        await games.sdk(each.metadata.name, "/players", {"players": ["ann"]})
    pods = {
        each.metadata.name: (await games.pod(each.metadata.name)).metadata.uid for each in playing
    }
    breaking = Faults(games, list(pods), random.Random(7))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await breaking.one()
        for each in playing:
            assert await plays(each), (each.metadata.name, breaking.done)
        await asyncio.sleep(1)

    async def as_before() -> None:
        for name, uid in pods.items():
            pod = await games.pod(name)
            assert pod.metadata.uid == uid
            assert not pod.metadata.deleting
            found = await games.client.get(Server, name, NAMESPACE)
            assert found.status.state == "Allocated", found.status
            assert found.status.game is not None
            assert found.status.game.players == 1, "what it said is forgotten"

    await eventually(as_before, within=90, every=0.5, not_yet=(KubeError,))
    await games.client.delete(Fleet, "arena", NAMESPACE)
    for name in pods:
        await games.becomes(name, "Draining", within=90)
        await games.sdk(name, "/allow_delete", {"allowed": True})
    (idle,) = (each.metadata.name for each in servers if each.metadata.name not in pods)
    await games.sdk(idle, "/allow_delete", {"allowed": True})
    await games.is_gone(Fleet, "arena", within=90)
    for kind in (Server, Pod, Allocation):
        assert not (await games.client.list(kind, NAMESPACE)).items
    _log.info("%d faults: %s", len(breaking.done), Counter(breaking.done))


async def a_node_is_cut_and_comes_back(games: Games) -> None:
    """A match on it goes on, and afterwards nothing is there twice."""
    await games.make(Fleet, "arena", {"scaling": {"replicas": 1}, "spec": game(nodeLossSeconds=2)})
    alone = await games.server("alone", nodeLossSeconds=2)
    node = alone.status.node
    await games.allocate("alone")
    pod = (await games.pod("alone")).metadata.uid
    faults.cut(games.cluster, node)
    try:
        await games.becomes("alone", "Unhealthy", within=90)
        assert (await games.pod("alone")).metadata.uid == pod
        assert not (await games.pod("alone")).metadata.deleting
    finally:
        faults.heal(games.cluster, node)

    async def back() -> None:
        found = await games.client.get(Node, node)
        assert any(
            each.type == "Ready" and each.status == "True" for each in found.status.conditions
        )

    await eventually(back, within=120, every=0.5)
    # As if nothing had been.
    await games.becomes("alone", "Allocated", within=90)
    assert (await games.pod("alone")).metadata.uid == pod
    assert await plays(alone)

    async def one() -> None:
        found = (await games.client.list(Server, NAMESPACE, labels=f"{names.FLEET}=arena")).items
        counted = [each for each in found if each.status.state == "Ready"]
        assert len(counted) == 1, [each.status.state for each in found]

    await eventually(one, within=90)


if LONG:

    async def test_nobody_is_cut_before_the_game_allows_it_or_its_time_is_over(
        games: Games,
    ) -> None:
        await players_through_a_version_and_a_drain(games)

    async def test_matches_go_on_whatever_is_killed(games: Games) -> None:
        await matches_go_on_through_faults(games)

    async def test_a_match_goes_on_while_its_node_is_cut_and_when_it_is_back(
        games: Games,
    ) -> None:
        await a_node_is_cut_and_comes_back(games)
