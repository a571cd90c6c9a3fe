"""A server for a match, over HTTP, at two replicas and a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import aiohttp
import pytest
from prometheus_client import REGISTRY

from edgewise.api.games import Allocation, AllocationSpec
from edgewise.client import Edgewise, NotReady
from edgewise.gameservers import names
from edgewise.gameservers.allocation.claiming import spec_of
from edgewise.gameservers.allocation.errors import NoServerFree
from edgewise.gameservers.allocation.idle_servers import candidate_of
from edgewise.gameservers.allocation.request import AllocationRequest
from edgewise.gameservers.allocation.revisions import MatchKey
from edgewise.gameservers.retirement import created
from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists, NotFound
from edgewise.server.identity.principal import Role
from edgewise.testing.eventually import eventually
from tests.integration.gameservers.allocating import Stage, stage
from tests.integration.server.http_client import Answer, Caller

PATH = "/v1/games/chess/allocations"
# Forty races each: a thousand in `make chaos`.
TURNS = 25 if os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0") else 5


class Scene:
    """Two replicas, a fleet, and an application that calls either of them."""

    def __init__(self, rig: Stage, http: aiohttp.ClientSession, token: str) -> None:
        self.rig = rig
        self.http = http
        self.a = Caller(http, rig.replicas[0].url, token)
        self.b = Caller(http, rig.replicas[1].url, token)

    async def allocate(self, caller: Caller, match: str, **wish: Any) -> Answer:
        return await caller("POST", PATH, {"match": match, **wish})

    async def as_(self, role: Role, application: str) -> Caller:
        token = await self.rig.add_token(role, application)
        return Caller(self.http, self.a.url, token)


@pytest.fixture
async def scene(client: Client) -> AsyncIterator[Scene]:
    async with stage(client) as rig, aiohttp.ClientSession() as http:
        await asyncio.gather(rig.add_replica(), rig.add_replica())
        await rig.add_fleet()
        yield Scene(rig, http, await rig.add_token())


async def test_a_match_gets_a_server_and_the_same_one_again(scene: Scene) -> None:
    await scene.rig.add_server("one")
    await scene.rig.say("one", ports=[{"name": "play", "port": 7001, "protocol": "UDP"}])
    await scene.rig.seen(1)
    first = await scene.allocate(scene.a, "m1", players=["ann", "bob"], metadata={"map": "desert"})
    assert first.status == 201, first
    assert first.body["server"] == "one"
    assert first.body["address"] == "10.0.0.1"
    assert first.body["ports"] == {"play": {"port": 7001, "protocol": "UDP"}}
    for caller in (scene.a, scene.b):
        again = await scene.allocate(caller, "m1")
        assert (again.status, again.body["uid"]) == (200, first.body["uid"])
    (taken,) = await scene.rig.allocations()
    assert taken.spec.metadata == {"map": "desert"}
    assert taken.spec.players == ["ann", "bob"]
    assert taken.spec.holder == "arena"


async def test_with_none_free_it_is_429_or_a_place_in_the_line(scene: Scene) -> None:
    await scene.rig.add_server("one")
    await scene.rig.seen(1)
    held = await scene.allocate(scene.a, "m1")
    refused = await scene.allocate(scene.a, "m2")
    assert refused.status == 429, refused
    assert refused.headers["Retry-After"] == "2"
    assert "no server of chess is free" in refused.body["detail"]
    second = await scene.allocate(scene.a, "m2", wait=60)
    third = await scene.allocate(scene.a, "m3", wait=60)
    assert (second.status, second.body["place"]) == (202, 1)
    assert (third.status, third.body["place"]) == (202, 2)
    assert second.body["until"]
    repeated = await scene.allocate(scene.b, "m3", wait=60)
    assert (repeated.status, repeated.body["uid"]) == (202, third.body["uid"])
    # Who waits first is served first, and is told at whichever replica it asks.
    waited = REGISTRY.get_sample_value("edgewise_games_wait_seconds_count") or 0
    waiting = asyncio.create_task(scene.b("GET", f"{PATH}/m2?wait=20"))
    gone = await scene.a("DELETE", f"{PATH}/m1?uid={held.body['uid']}")
    assert gone.status == 204
    served = await waiting
    assert (served.status, served.body["server"]) == (200, "one")
    await eventually(
        lambda: REGISTRY.get_sample_value("edgewise_games_wait_seconds_count") == waited + 1
    )
    left = await scene.a("GET", f"{PATH}/m3")
    assert (left.status, left.body["place"]) == (202, 1)
    assert (await scene.a("DELETE", f"{PATH}/m3")).status == 204
    assert (await scene.a("GET", f"{PATH}/m3")).status == 404


async def test_who_waits_in_vain_is_not_kept(scene: Scene) -> None:
    queued = await scene.allocate(scene.a, "m1", wait=1)
    assert queued.status == 202
    await eventually(lambda: scene.rig.replicas[0].half.matches.all() == [], within=15)
    assert await scene.rig.allocations() == []


async def test_a_late_release_never_ends_the_next_match(scene: Scene) -> None:
    await scene.rig.add_server("one")
    await scene.rig.seen(1)
    first = (await scene.allocate(scene.a, "m1")).body
    await scene.a("DELETE", f"{PATH}/m1?uid={first['uid']}")
    await scene.rig.seen(1)
    second = (await scene.allocate(scene.a, "m1")).body
    assert second["uid"] != first["uid"]
    assert (await scene.b("DELETE", f"{PATH}/m1?uid={first['uid']}")).status == 204
    assert [each.metadata.uid for each in await scene.rig.allocations()] == [second["uid"]]
    late = await scene.b("POST", f"{PATH}/m1/heartbeat?uid={first['uid']}")
    assert late.status == 410
    assert "has lost its server" in late.body["detail"]
    kept = await scene.b("POST", f"{PATH}/m1/heartbeat?uid={second['uid']}")
    assert (kept.status, kept.body["server"]) == (200, "one")


async def test_a_holder_that_falls_silent_loses_its_server_unless_players_are_there(
    scene: Scene,
) -> None:
    for name in ("one", "two", "three"):
        await scene.rig.add_server(name)
    await scene.rig.seen(3)
    # The server would not take a lease as short as this from a caller.
    for running in scene.rig.replicas:
        claims, game = running.half.claims, running.half.games.find_game("chess")
    silent = (
        await claims.allocate(game, "arena", AllocationRequest(match="silent", lease=2))
    ).allocation
    played = (
        await claims.allocate(game, "arena", AllocationRequest(match="played", lease=2))
    ).allocation
    await claims.allocate(game, "arena", AllocationRequest(match="heard", lease=8))
    await scene.rig.say(played.metadata.name, game={"players": 2})
    for _ in range(9):  # longer than the lease of the one that is heard
        await scene.b("POST", f"{PATH}/heard/heartbeat")
        await asyncio.sleep(1)

    async def silent_is_gone() -> None:
        await scene.b("POST", f"{PATH}/heard/heartbeat")
        left = sorted(each.spec.match for each in await scene.rig.allocations())
        assert left == ["heard", "played"]

    await eventually(silent_is_gone, every=1)
    late = await scene.a("POST", f"{PATH}/silent/heartbeat?uid={silent.metadata.uid}")
    assert late.status == 410


async def test_a_server_that_does_not_acknowledge_is_taken_back(scene: Scene) -> None:
    await scene.rig.add_server("deaf", acknowledge="1s")
    await scene.rig.add_server("good", acknowledge="20s")
    await scene.rig.seen(2)

    async def acknowledge() -> None:
        while True:
            for each in await scene.rig.allocations():
                if each.metadata.name == "good":
                    said = {"acknowledged": each.metadata.uid}
                    await scene.rig.say("good", game=said)
                    return
            await asyncio.sleep(0.05)

    game = asyncio.create_task(acknowledge())
    # Whichever is tried first, only the one that answers is given.
    answers = await asyncio.gather(*(scene.allocate(caller, "m1") for caller in (scene.a, scene.b)))
    await game
    assert {each.body["server"] for each in answers} == {"good"}, answers
    assert {each.status for each in answers} <= {200, 201}
    (left,) = await scene.rig.allocations()
    assert left.status.acknowledged


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"match": "m" * 129}, "at most 128 characters"),
        ({"match": "a b"}, "letters, digits"),
        ({"match": ""}, "match"),
        ({}, "match"),
        ({"match": "m", "selectors": [{"labels": "a=b c"}]}, "selectors[0].labels"),
        ({"match": "m", "lease": 3}, "lease: 3 s is too short"),
        ({"match": "m", "wait": -1}, "wait"),
        ({"match": "m", "counters": []}, "counters"),
    ],
)
async def test_bad_input_is_refused_with_a_sentence(
    scene: Scene, wish: dict[str, Any], sentence: str
) -> None:
    answer = await scene.a("POST", PATH, wish)
    assert answer.status in (400, 422), answer
    assert sentence in answer.body["detail"]


async def test_selectors_are_tried_in_their_order(scene: Scene) -> None:
    await scene.rig.add_server("old")
    await scene.rig.add_server("new")
    await scene.rig.say("old", version="v1")
    await scene.rig.heard(await scene.rig.say("new", version="v2"))
    await scene.rig.seen(2)
    wanted = [{"labels": "map=desert"}, {"version": "v2"}, {"version": "v1"}]
    first = await scene.allocate(scene.a, "m1", selectors=wanted)
    second = await scene.allocate(scene.a, "m2", selectors=wanted)
    third = await scene.allocate(scene.a, "m3", selectors=wanted)
    assert (first.body["server"], second.body["server"]) == ("new", "old")
    assert third.status == 429


async def test_matches_of_another_application_are_not_there_for_it(scene: Scene) -> None:
    await scene.rig.add_servers(2)
    await scene.allocate(scene.a, "m1")
    other = await scene.as_(Role.APP, "other")
    assert (await other("GET", f"{PATH}/m1")).status == 404
    assert (await other("DELETE", f"{PATH}/m1")).status == 204
    assert (await other("GET", PATH)).body["items"] == []
    assert len(await scene.rig.allocations()) == 1
    mine = await other("POST", PATH, {"match": "m1"})
    assert mine.status == 201
    reader = await scene.as_(Role.READER, "eyes")
    assert len((await reader("GET", PATH)).body["items"]) == 2
    assert (await reader("POST", PATH, {"match": "m9"})).status == 403
    assert (await reader("DELETE", f"{PATH}/m1")).status == 403


async def test_the_sdk_gives_a_match_a_server_and_keeps_it(scene: Scene) -> None:
    await scene.rig.add_server("one")
    await scene.rig.say("one", ports=[{"name": "play", "port": 7001, "protocol": "UDP"}])
    await scene.rig.seen(1)
    token = scene.a.headers["Authorization"].removeprefix("Bearer ")
    sdk = Edgewise(scene.b.url, token)
    async with sdk.match("chess", "m1", lease=10) as match, Edgewise(scene.a.url, token) as other:
        assert match.endpoint() == ("10.0.0.1", 7001)
        again = await other.allocate("chess", "m1")
        assert again.uid == match.allocation.uid
        with pytest.raises(NotReady, match="became free for m2"):
            await other.allocate("chess", "m2", wait=1)
        waiting = asyncio.create_task(other.allocate("chess", "m3", wait=30))
        await eventually(lambda: scene.rig.replicas[0].half.matches.line("chess"))
        await asyncio.sleep(12)  # longer than the lease
        assert not match.lost
        assert [each.match for each in await other.allocations("chess")] == ["m1", "m3"]
        await other.release("chess", "m1", uid=match.allocation.uid)
        given = await waiting
        assert given.server == "one"
        async with asyncio.timeout(10):
            await match.wait_lost()
    # The end of the block released what it had, and not what another match has now.
    assert [each.spec.match for each in await scene.rig.allocations()] == ["m3"]


# Exactly once ---------------------------------------------------------------------------------


async def test_a_match_sent_by_20_callers_at_once_to_two_replicas_has_one_server(
    scene: Scene,
) -> None:
    await scene.rig.add_servers(60)
    for number in range(10):
        callers = [scene.a if each % 2 else scene.b for each in range(20)]
        answers = await asyncio.gather(
            *(scene.allocate(each, f"match-{number}") for each in callers)
        )
        assert {each.status for each in answers} <= {200, 201}, answers
        assert len({each.body["uid"] for each in answers}) == 1
    # What was dropped is gone, and nobody was told of it.
    left = await scene.rig.allocations()
    assert sorted(each.spec.match for each in left) == sorted(f"match-{n}" for n in range(10))


@pytest.mark.chaos
async def test_two_allocators_and_a_shrinking_fleet_race_for_the_last_idle_server(
    scene: Scene,
) -> None:
    wins: Counter[str] = Counter()
    fleets = [f"f{number}" for number in range(40)]
    uids = {}
    for fleet in fleets:
        await scene.rig.add_fleet(fleet)
        uids[fleet] = (await scene.rig.add_server(f"{fleet}-1", fleet)).metadata.uid

    async def allocate(number: int, fleet: str, match: str) -> str:
        half = scene.rig.replicas[number].half
        try:
            given = await half.claims.allocate(
                half.games.find_game(fleet), "arena", AllocationRequest(match=match)
            )
        except NoServerFree:
            return ""
        assert given.new
        return f"replica {number}"

    async def shrink_by_list(fleet: str) -> str:
        """As a fleet does: whatever match was earlier than the list keeps its server."""
        name, namespace = f"{fleet}-1", scene.rig.namespace
        spec = AllocationSpec(retires={name: uids[fleet]}, retired=True, fleet=fleet)
        made = await scene.rig.direct.create(
            Allocation.named(names.retiring(name), namespace, spec=spec)
        )
        with contextlib.suppress(NotFound):
            found = await scene.rig.direct.get(Allocation, name, namespace)
            if created(found) < created(made):
                return ""
        return "shrinking fleet"

    async def shrink_alone(fleet: str) -> str:
        retired = AllocationSpec(server_uid=uids[fleet], retired=True, fleet=fleet)
        try:
            await scene.rig.direct.create(
                Allocation.named(f"{fleet}-1", scene.rig.namespace, spec=retired)
            )
        except AlreadyExists:
            return ""
        return "shrinking fleet"

    async def begin_after(seconds: float, way: Coroutine[Any, Any, str]) -> str:
        await asyncio.sleep(seconds)
        return await way

    async def race(fleet: str, turn: int) -> None:
        await scene.rig.seen(1, fleet)
        shrink = shrink_alone if turn % 2 else shrink_by_list
        ways = [allocate(0, fleet, f"{turn}-a"), allocate(1, fleet, f"{turn}-b"), shrink(fleet)]
        # A removal is one call and an allocation several: without a start ahead, by turns, the
        # allocators would hardly ever win, and the test would say nothing of them.
        first = random.randrange(len(ways))
        starts = [0 if each == first else random.uniform(0, 0.05) for each in range(len(ways))]
        raced = await asyncio.gather(*map(begin_after, starts, ways))
        winners = [each for each in raced if each]
        assert len(winners) == 1, (fleet, winners)
        wins[winners[0]] += 1
        for name in (f"{fleet}-1", names.retiring(f"{fleet}-1")):
            with contextlib.suppress(NotFound):
                await scene.rig.direct.delete(Allocation, name, scene.rig.namespace)

    for turn in range(TURNS):
        await asyncio.gather(*(race(fleet, turn) for fleet in fleets))
    assert sum(wins.values()) == TURNS * len(fleets)
    assert len(wins) == 3, wins


@pytest.mark.parametrize("relisted", [False, True], ids=["", "after a relist"])
async def test_a_replica_killed_before_its_answer_leaves_what_the_repeated_call_finds(
    scene: Scene, relisted: bool
) -> None:
    await scene.rig.add_servers(5)
    key = MatchKey("chess", "arena", "m1")
    dead, alive = scene.rig.replicas
    server = dead.half.games.servers.all()[0]
    # All that it did before it was killed.
    await dead.half.writer.create(
        server.metadata.name, spec_of(key, candidate_of(server), AllocationRequest(match="m1"))
    )
    if relisted:
        await alive.half.games.link.caches.refresh(Allocation.KIND)
    answer = await scene.allocate(scene.b, "m1")
    assert answer.body["server"] == server.metadata.name
    assert len(await scene.rig.allocations()) == 1
