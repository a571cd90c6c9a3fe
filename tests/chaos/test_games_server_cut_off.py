"""A replica of the server killed at any of its writes: each match has one server, which its caller
is told by the other replica; the line goes on, and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets

import pytest

from edgewise.api.games import Allocation, Fleet, FleetSpec, Server, ServerSpec
from edgewise.api.installation import install
from edgewise.gameservers.allocation import plan
from edgewise.gameservers.allocation.request import AllocationRequest
from edgewise.gameservers.domain import GAMESERVERS
from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError
from edgewise.kube.kinds.core import Namespace
from edgewise.runtime.errors import ServiceError
from edgewise.testing.eventually import eventually
from tests.chaos.game_world import game_clients
from tests.chaos.server_replica import ServerReplica, server_client
from tests.integration.conftest import ApiServer

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
CUTS = 3  # in `make test`
POD = {"containers": [{"name": "game", "image": "game"}]}

pytestmark = pytest.mark.chaos


class Callers:
    """Ask one replica, and if it does not answer the other one, as the SDK does."""

    def __init__(self, replicas: list[ServerReplica]) -> None:
        self.replicas = replicas
        self.told: dict[str, set[str]] = {}

    async def call(self, match: str, *order: int, wait: int = 0) -> Allocation:
        found: list[Allocation] = []

        async def answered() -> bool:
            for number in order:
                replica = self.replicas[number]
                half = replica.half
                with contextlib.suppress(ServiceError, KubeError):
                    given = await half.claims.allocate(
                        half.games.find_game("chess"),
                        "people",
                        AllocationRequest(match=match, wait=wait),
                    )
                    if replica.cut.dead.is_set():
                        continue  # who was killed answers nobody
                    found.append(given.allocation)
                    return True
            return False

        await eventually(answered, within=30, every=0.1)
        if found[0].spec.waiting is None:
            self.told.setdefault(match, set()).add(found[0].metadata.name)
        return found[0]


async def play(client: Client, namespace: str, callers: Callers) -> None:
    """Two servers and three matches: one twice at once, one that waits for another's end."""
    spec = FleetSpec(spec=ServerSpec(pod=POD))
    await client.create(Fleet.named("chess", namespace, spec=spec))
    for number in range(2):
        server = Server.named(f"chess-{number}", namespace, spec=ServerSpec(pod=POD))
        server.metadata.labels = {"fleet": "chess"}
        await client.create(server)
        await client.patch(
            Server,
            server.metadata.name,
            namespace,
            body={"status": {"state": "Ready", "address": "10.0.0.1", "node": "n"}},
            subresource="status",
        )
    first, again = await asyncio.gather(callers.call("m1", 0, 1), callers.call("m1", 1, 0))
    assert first.metadata.name == again.metadata.name
    await callers.call("m2", 0, 1)
    waits = await callers.call("m3", 0, 1, wait=300)
    assert waits.spec.waiting is not None
    await released(callers, first)

    async def served() -> bool:
        return (await callers.call("m3", 1, 0, wait=300)).spec.waiting is None

    await eventually(served, within=30, every=0.1)


async def released(callers: Callers, allocation: Allocation) -> None:
    async def gone() -> bool:
        for replica in callers.replicas:
            with contextlib.suppress(ServiceError, KubeError):
                await replica.half.writer.release(allocation)
                return not replica.cut.dead.is_set()
        return False

    await eventually(gone, within=30, every=0.1)


async def run(api_server: ApiServer, cut_at: int | None, *, after: bool = False) -> ServerReplica:
    namespace = f"chess-{secrets.token_hex(4)}"
    async with game_clients(api_server) as (_, operator), server_client(api_server) as client:
        await operator.create(Namespace.named(namespace))
        replicas = [
            ServerReplica(client, namespace, "r0", cut_at, after=after),
            ServerReplica(client, namespace, "r1"),
        ]
        callers = Callers(replicas)
        try:
            await play(operator, namespace, callers)

            async def well() -> None:
                left = (await operator.list(Allocation, namespace)).items
                assert sorted(each.spec.match for each in left) == ["m2", "m3"]
                assert all(each.spec.waiting is None for each in left)

            await eventually(well, within=30, every=0.2)
        finally:
            for replica in replicas:
                await replica.stop()
        assert {match: len(servers) for match, servers in callers.told.items()} == {
            "m1": 1,
            "m2": 1,
            "m3": 1,
        }
        assert callers.told["m1"] == callers.told["m3"]
        assert callers.told["m1"] != callers.told["m2"]
        return replicas[0]


@pytest.mark.timeout(3600)
async def test_each_match_has_one_server_when_a_replica_is_killed_at_any_write(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a dead replica left is looked for after this long; nothing is slow here.
    monkeypatch.setattr(plan, "LEFT_BEHIND_SECONDS", 3.0)
    async with game_clients(api_server) as (person, _):
        await install(person, GAMESERVERS.kinds)
        for each in GAMESERVERS.cluster_objects:
            await person.apply(each)
    writes = (await run(api_server, None)).cut.writes
    assert writes > 3
    cuts = [(cut_at, after) for cut_at in range(1, writes + 1) for after in (False, True)]
    for cut_at, after in cuts if LONG else random.sample(cuts, CUTS):
        try:
            await run(api_server, cut_at, after=after)
        except AssertionError as error:
            moment = "after" if after else "before"
            raise AssertionError(f"killed {moment} write {cut_at} of {writes}: {error}") from error
