"""No place is overfilled, whoever races; those for whom there is no seat wait their turn."""

from __future__ import annotations

import asyncio

import pytest

from edgewise.api.global_sessions import BindingState, GlobalSession, Location
from edgewise.runtime.errors import Unavailable
from edgewise.sessions.hub.errors import NoPlace
from edgewise.sessions.hub.joining import JoinRequest
from edgewise.sessions.hub.lifecycle import NewSession
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from edgewise.testing.sessions_replica import SessionsReplica


async def limit(rig: HubRig, replicas: list[SessionsReplica], **capacity: int) -> None:
    for name, most in capacity.items():
        body = {"spec": {"capacity": most}}
        await rig.direct.patch(Location, name, rig.namespace, body=body)

    def seen() -> bool:
        return all(
            (known := replica.hub.location(name)) is not None and known.spec.capacity == most
            for replica in replicas
            for name, most in capacity.items()
        )

    await eventually(seen)


async def made(replica: SessionsReplica, template: str = "demo") -> GlobalSession:
    new = NewSession(template=template, name="room-1")
    session, _ = await replica.lifecycle.create(new, owner="arena")
    return session


async def test_a_race_for_the_last_seats_through_two_replicas(rig: HubRig) -> None:
    replicas = [await rig.add_replica() for _ in range(2)]
    session = await made(replicas[0])
    await limit(rig, replicas, porto=7, paris=6)

    async def enter(number: int) -> str:
        for _ in range(50):
            try:
                wish = JoinRequest(latencies={"porto": 1.0, "paris": 50.0})
                joining = replicas[number % 2].joining
                joined = await joining.join(session, f"client-{number}", wish)
            except NoPlace:
                return ""
            except Unavailable:
                await asyncio.sleep(0.02)
            else:
                return joined.binding.spec.location
        raise AssertionError("no answer")

    answers = await asyncio.gather(*(enter(number) for number in range(40)))
    bindings = (await rig.bindings()).values()
    taken = [binding.spec.location for binding in bindings]
    assert sorted(answers, reverse=True)[: len(taken)] == sorted(taken, reverse=True)
    assert taken.count("porto") <= 7
    assert taken.count("paris") <= 6
    # Who gave a seat back may have met another who did; then the next one gets it.
    for number in range(40, 60):
        if await enter(number) == "":
            break
    seats = await rig.seats("room-1")
    await eventually(lambda: replicas[0].hub_view.ledger.seated("porto") == 7)
    assert (len(seats["porto"]), len(seats["paris"])) == (7, 6)


async def test_those_who_wait_are_seated_in_turn(rig: HubRig) -> None:
    await rig.add_template("patient", queue_seconds=60)
    replica = await rig.add_replica()
    session = await made(replica, "patient")
    await limit(rig, [replica], porto=1, paris=0)
    await replica.joining.join(session, "first", JoinRequest())
    await eventually(lambda: replica.hub_view.ledger.seated("porto") == 1)
    for client in ("second", "third"):
        waiting = await replica.joining.join(session, client, JoinRequest())
        assert waiting.binding.spec.state is BindingState.QUEUED
        await eventually(lambda client=client: replica.hub.binding(session, client) is not None)

    def positions() -> list[int | None]:
        return [
            replica.hub_view.client(binding).position
            for client in ("second", "third")
            if (binding := replica.hub.binding(session, client)) is not None
        ]

    assert positions() == [1, 2]
    again = await replica.joining.join(session, "third", JoinRequest())
    assert again.binding.spec.state is BindingState.QUEUED
    assert positions() == [1, 2]
    assert replica.hub_view.location("porto").state == "full"  # type: ignore[union-attr]

    await replica.joining.leave(session, "first")
    await eventually(lambda: _seats(rig, {"second"}))
    assert positions() == [None, 1]
    await limit(rig, [replica], porto=2)
    await eventually(lambda: _seats(rig, {"second", "third"}))


async def _seats(rig: HubRig, clients: set[str]) -> bool:
    return set((await rig.seats("room-1"))["porto"]) == clients


async def test_who_waits_too_long_is_let_go(rig: HubRig) -> None:
    await rig.add_template("hasty", queue_seconds=1)
    replica = await rig.add_replica()
    session = await made(replica, "hasty")
    await limit(rig, [replica], porto=0, paris=0)
    waiting = await replica.joining.join(session, "alice", JoinRequest())
    assert waiting.binding.spec.state is BindingState.QUEUED

    async def nobody_waits() -> bool:
        return await rig.bindings() == {}

    await eventually(nobody_waits)


async def test_without_a_queue_full_locations_refuse(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    await limit(rig, [replica], porto=0, paris=0)
    with pytest.raises(NoPlace, match=r"paris is full \(0 of 0 clients\); porto is full"):
        await replica.joining.join(session, "alice", JoinRequest())
    assert await rig.bindings() == {}
