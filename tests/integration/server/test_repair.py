"""Whatever a member missed while it was away, it has within seconds after it is back."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from edgewise.api.global_sessions import GlobalSession
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.client import Client
from edgewise.sessions.hub.joining import JoinRequest
from edgewise.sessions.hub.lifecycle import NewSession
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig, patiently
from edgewise.testing.sessions_replica import SessionsReplica

CONVERGED_SECONDS = 30.0


async def made(replica: SessionsReplica, name: str, **fields: object) -> GlobalSession:
    new = NewSession(template="demo", name=name, **fields)  # type: ignore[arg-type]
    session, _ = await patiently(lambda: replica.lifecycle.create(new, owner="arena"))
    return session


async def gone(rig: HubRig) -> list[str]:
    listing = await rig.direct.list(GlobalSession, rig.namespace)
    return sorted(session.metadata.name for session in listing.items)


async def test_a_member_that_was_away_during_50_creates_and_50_deletes(rig: HubRig) -> None:
    replica, other = await rig.add_replica(), await rig.add_replica()
    old = await asyncio.gather(*(made(replica, f"old-{n}") for n in range(50)))
    porto = rig.members["porto"]
    await eventually(lambda: len(replica.members.get("porto").sessions) == 50)  # type: ignore[union-attr]

    porto.cut()
    await eventually(lambda: replica.members.trouble("porto") and other.members.trouble("porto"))
    await asyncio.gather(
        *(made(other if n % 2 else replica, f"new-{n}") for n in range(50)),
        *(patiently(partial(replica.lifecycle.delete, session)) for session in old),
    )
    new = sorted(f"new-{n}" for n in range(50))
    await eventually(lambda: _holds(rig, "paris", new))
    assert await rig.sessions_in("porto") == sorted(f"old-{n}" for n in range(50))
    assert len(await gone(rig)) == 100  # tombstones stay until porto has confirmed

    porto.heal()
    back = time.monotonic()
    await eventually(lambda: _holds(rig, "porto", new), within=30)
    await eventually(lambda: _same(gone(rig), new), within=30)
    assert time.monotonic() - back <= CONVERGED_SECONDS
    assert await rig.sessions_in("paris") == new


async def _holds(rig: HubRig, member: str, names: list[str]) -> bool:
    return await rig.sessions_in(member) == names


async def _same(asked, expected: list[str]) -> bool:
    return await asked == expected


async def test_clients_that_left_came_or_moved_meanwhile(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica, "room-1")
    for client in ("leaves", "moves", "loses", "stays"):
        await replica.joining.join(session, client, JoinRequest(location="porto", lease_seconds=0))
    porto = rig.members["porto"]
    porto.cut()
    await eventually(lambda: replica.members.trouble("porto"))
    await replica.joining.leave(session, "leaves")
    await replica.joining.join(session, "moves", JoinRequest(location="paris", move=True))
    await replica.joining.disconnect(session, "loses")
    porto.heal()
    expected = {
        "porto": {"loses": {"connected": False}, "stays": {"connected": True}},
        "paris": {"moves": {"connected": True}},
    }
    await eventually(lambda: _same(rig.seats("room-1"), expected), within=15)


async def test_what_was_done_behind_our_back_is_undone(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica, "room-1")
    await replica.joining.join(session, "alice", JoinRequest(location="porto"))
    porto, paris = rig.members["porto"].namespace, rig.members["paris"].namespace
    ghost = {"spec": {"clients": {"ghost": {"connected": True}, "alice": None}}}
    await rig.direct.patch(Session, "room-1", porto, body=ghost)
    await rig.direct.delete(Session, "room-1", paris)
    expected = {"porto": {"alice": {"connected": True}}, "paris": {}}
    await eventually(lambda: _same(rig.seats("room-1"), expected), within=15)


async def test_a_session_that_somebody_else_made_is_left_alone(rig: HubRig, client: Client) -> None:
    await rig.direct.create(
        Session.named(
            "room-1",
            rig.members["porto"].namespace,
            spec={"podTemplates": [{"name": "x"}], "clients": {"eve": {"connected": True}}},
        )
    )
    replica = await rig.add_replica()
    session = await made(replica, "room-1")
    joined = await replica.joining.join(session, "alice", JoinRequest(latencies={"porto": 1.0}))
    assert joined.binding.spec.location == "paris"
    view = replica.hub_view.session(session)
    assert view.locations["porto"].state == "conflict"
    await replica.lifecycle.delete(session)
    await eventually(lambda: _same(gone(rig), []), within=15)
    assert await rig.seats("room-1") == {"porto": {"eve": {"connected": True}}}


async def test_templates_are_copied_followed_and_removed(rig: HubRig) -> None:
    replica = await rig.add_replica()
    assert replica.hub.template("demo") is not None
    namespaces = [member.namespace for member in rig.members.values()]

    async def copies() -> list[int]:
        found = []
        for namespace in namespaces:
            listing = await rig.direct.list(SessionTemplate, namespace)
            found += [template.spec.timeout_seconds for template in listing.items]
        return found

    await eventually(lambda: _same(copies(), [30, 30]))
    change = {"spec": {"timeoutSeconds": 60}}
    await rig.direct.patch(SessionTemplate, "demo", rig.namespace, body=change)
    await eventually(lambda: _same(copies(), [60, 60]))
    await rig.direct.patch(
        SessionTemplate, "demo", namespaces[0], body={"spec": {"timeoutSeconds": 5}}
    )
    await eventually(lambda: _same(copies(), [60, 60]))
    await rig.direct.delete(SessionTemplate, "demo", rig.namespace)
    await eventually(lambda: _same(copies(), []))


async def test_a_member_that_comes_later_gets_everything(rig: HubRig) -> None:
    replica = await rig.add_replica()
    await made(replica, "room-1")
    await made(replica, "room-2", locations=["porto"])
    await rig.add_member("rome")
    await eventually(lambda: _holds(rig, "rome", ["room-1"]), within=15)


async def test_the_second_replica_takes_over_the_repair(rig: HubRig) -> None:
    replica, other = await rig.add_replica(), await rig.add_replica()
    await eventually(lambda: replica.leading)
    session = await made(replica, "room-1")
    await replica.joining.join(session, "alice", JoinRequest(location="porto"))
    rig.hub_proxies[0].refusing = True  # the leader cannot renew any more
    rig.hub_proxies[0].cut_all()
    await rig.direct.patch(
        Session,
        "room-1",
        rig.members["porto"].namespace,
        body={"spec": {"clients": {"alice": None}}},
    )
    expected = {"porto": {"alice": {"connected": True}}, "paris": {}}
    await eventually(lambda: _same(rig.seats("room-1"), expected), within=20)
    assert other.leading
    assert not replica.leading
