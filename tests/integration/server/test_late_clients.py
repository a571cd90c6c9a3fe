"""A cluster that cannot start the pods does not keep its clients."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edgewise.api.global_sessions import Degradation, GlobalSession, Location
from edgewise.api.sessions import SessionTemplate
from edgewise.sessions.hub.duties import late_clients
from edgewise.sessions.hub.errors import NoPlace
from edgewise.sessions.hub.joining import Joining, JoinRequest
from edgewise.sessions.hub.lifecycle import NewSession
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from edgewise.testing.sessions_replica import SessionsReplica
from tests.integration.server.scene import ALICE, Scene

NEAR_PORTO = JoinRequest(latencies={"porto": 5.0, "paris": 30.0})
NO_IMAGE = {"reason": "PodsNotStarting", "message": "ErrImagePull: no such image", "late": True}
NO_PORT = {"reason": "PortsExhausted", "message": "no public UDP port is free"}


async def made(replica: SessionsReplica, template: str = "demo", **fields: Any) -> GlobalSession:
    new = NewSession(template=template, name="room-1", **fields)
    session, _ = await replica.lifecycle.create(new, owner="arena")
    return session


def cluster_of(replica: SessionsReplica, session: GlobalSession, client: str) -> str:
    binding = replica.hub.binding(session, client)
    return binding.spec.location if binding is not None else ""


async def seated(rig: HubRig, **clients: str) -> None:
    """Each client sits in one cluster, this one, and in no other."""

    async def so() -> bool:
        seats = await rig.seats("room-1")
        found = {client: name for name, each in seats.items() for client in each}
        total = sum(len(each) for each in seats.values())
        return found == clients and total == len(clients)

    await eventually(so, within=20)


async def degrade(rig: HubRig, replica: SessionsReplica, trial: timedelta, **fields: Any) -> None:
    """Mark porto by hand, as a leader before this one did."""
    now = datetime.now(UTC).replace(microsecond=0)
    generation = (await rig.direct.get(SessionTemplate, "demo", rig.namespace)).metadata.generation
    mark = Degradation(
        generation=generation, failures=2, since=now, trial=now + trial, **{**NO_MARK, **fields}
    )
    body = {"status": {"degraded": {"demo": mark}}}
    await rig.direct.patch(Location, "porto", rig.namespace, body=body, subresource="status")

    def shown() -> bool:
        return "demo" in marks(replica) and marks(replica)["demo"].trial == mark.trial

    await eventually(shown)


NO_MARK = {"reason": "PodsNotStarting", "message": "ErrImagePull: no such image"}


def marks(replica: SessionsReplica) -> dict[str, Any]:
    location = replica.hub_view.location("porto")
    return location.degraded if location is not None else {}


async def test_the_next_best_place_is_tried_and_the_bad_one_is_avoided(rig: HubRig) -> None:
    replica, other = await rig.add_replica(), await rig.add_replica()
    session = await made(replica)
    rig.members["porto"].stand_in.failing = NO_IMAGE
    for client in ("alice", "bob"):
        joined = await other.joining.join(session, client, NEAR_PORTO)
        assert joined.binding.spec.location == "porto"
    await seated(rig, alice="paris", bob="paris")
    await eventually(lambda: replica.hub_view.summary(session).ready == 2)
    binding = replica.hub.binding(session, "alice")
    assert binding is not None
    assert (binding.spec.moves, binding.spec.tried) == (1, ["porto"])
    assert binding.spec.why.startswith(
        "porto did not make it ready within 60 s (PodsNotStarting: ErrImagePull: no such image); "
        "paris: 30 ms away"
    )
    # For everybody, through every replica, until it works again.
    await eventually(lambda: marks(replica) and marks(other))
    assert marks(other)["demo"].message == "ErrImagePull: no such image"
    carol = await other.joining.join(session, "carol", NEAR_PORTO)
    assert carol.binding.spec.location == "paris"
    assert "porto is degraded for demo since 20" in carol.binding.spec.why
    # Others are not concerned.
    await rig.add_template("other")
    await eventually(lambda: other.hub.template("other") is not None)
    new = NewSession(template="other", name="room-2")
    elsewhere, _ = await other.lifecycle.create(new, owner="arena")
    assert (await other.joining.join(elsewhere, "x", NEAR_PORTO)).binding.spec.location == "porto"


async def test_a_dead_operator_keeps_nobody(rig: HubRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_clients, "GRACE_SECONDS", 0.5)
    await rig.add_template("quick", ready_seconds=1)
    replica = await rig.add_replica()
    session = await made(replica, "quick")
    rig.members["porto"].stand_in.holding_back = True
    await replica.joining.join(session, "alice", NEAR_PORTO)
    await seated(rig, alice="paris")
    binding = replica.hub.binding(session, "alice")
    assert binding is not None
    assert "its operator says nothing of the client" in binding.spec.why


async def test_who_was_ready_or_asked_for_the_place_stays(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    ready = await replica.joining.join(session, "ready", NEAR_PORTO)
    await eventually(lambda: replica.hub_view.client(ready.binding).ready)
    porto = rig.members["porto"].stand_in
    porto.failing = {**NO_IMAGE, "ready": False}
    await porto.look_again()
    await replica.joining.join(session, "asked", JoinRequest(location="porto"))
    await replica.joining.join(session, "free", NEAR_PORTO)
    await seated(rig, ready="porto", asked="porto", free="paris")
    waiting = replica.hub.binding(session, "asked")
    assert waiting is not None
    assert replica.hub_view.client(waiting).message == "ErrImagePull: no such image"


async def test_when_no_place_will_do_each_is_tried_once_and_then_there_is_a_rest(
    rig: HubRig,
) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    for member in rig.members.values():
        member.stand_in.failing = NO_IMAGE
    await replica.joining.join(session, "alice", NEAR_PORTO)

    def resting() -> bool:
        binding = replica.hub.binding(session, "alice")
        return binding is not None and binding.spec.retry is not None

    await eventually(resting, within=20)
    binding = replica.hub.binding(session, "alice")
    assert binding is not None
    view = replica.hub_view.client(binding)
    assert (view.location, view.moves, view.tried) == ("paris", 1, ["porto", "paris"])
    assert view.retry is not None
    assert view.retry > datetime.now(UTC) + timedelta(seconds=20)
    assert f"tried again from {view.retry:%Y-%m-%dT%H:%M:%SZ} on: porto was tried" in view.why
    # Whoever gets it ready meanwhile has it.
    rig.members["paris"].stand_in.failing = {}
    await rig.members["paris"].stand_in.look_again()
    await eventually(lambda: replica.hub_view.client(binding).ready)
    await seated(rig, alice="paris")


async def test_a_crash_in_the_middle_of_the_move_leaves_exactly_one_seat(
    rig: HubRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    replica = await rig.add_replica()
    await eventually(lambda: replica.leading)
    session = await made(replica)
    rig.members["porto"].stand_in.failing = NO_IMAGE
    await replica.joining.join(session, "alice", NEAR_PORTO)
    # The hub has the move; nobody has told a cluster.
    monkeypatch.setattr(Joining, "_take_out", crash)
    await eventually(lambda: cluster_of(replica, session, "alice") == "paris", within=20)
    monkeypatch.undo()
    await rig.add_replica()
    await seated(rig, alice="paris")


async def test_one_client_finds_out_that_a_degraded_place_works_again(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    await degrade(rig, replica, timedelta(hours=1))
    early = await replica.joining.join(session, "early", NEAR_PORTO)
    assert early.binding.spec.location == "paris"
    await degrade(rig, replica, timedelta(seconds=-1))
    rig.members["porto"].stand_in.holding_back = True
    joined = await asyncio.gather(
        *(replica.joining.join(session, f"client-{n}", NEAR_PORTO) for n in range(4))
    )
    trials = [each.binding for each in joined if each.binding.spec.location == "porto"]
    assert len(trials) == 1
    assert "; a trial: it is degraded for demo since 20" in trials[0].spec.why
    rig.members["porto"].stand_in.holding_back = False
    await rig.members["porto"].stand_in.look_again()
    await eventually(lambda: not marks(replica), within=20)
    late = await replica.joining.join(session, "late", NEAR_PORTO)
    assert late.binding.spec.location == "porto"


async def test_a_changed_template_is_tried_everywhere(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    await degrade(rig, replica, timedelta(hours=1))
    body = {"spec": {"timeoutSeconds": 31}}
    await rig.direct.patch(SessionTemplate, "demo", rig.namespace, body=body)
    await eventually(lambda: not marks(replica))
    assert (await replica.joining.join(session, "a", NEAR_PORTO)).binding.spec.location == "porto"

    async def forgotten() -> bool:
        location = await rig.direct.get(Location, "porto", rig.namespace)
        return not location.status.degraded

    await eventually(forgotten)


async def test_a_place_without_free_ports_is_full_for_those_who_need_one(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    served = await replica.joining.join(session, "served", NEAR_PORTO)
    await eventually(lambda: replica.hub_view.client(served.binding).ready)
    rig.members["porto"].stand_in.failing = NO_PORT
    # At once: there is no deadline to wait for.
    await replica.joining.join(session, "alice", NEAR_PORTO)
    await seated(rig, served="porto", alice="paris")
    await eventually(lambda: marks(replica))
    with pytest.raises(NoPlace, match="porto is full: no public UDP port is free"):
        await replica.joining.join(session, "bob", JoinRequest(location="porto"))
    # Somebody leaves, and takes no port along.
    await replica.joining.leave(session, "served")
    await eventually(lambda: not marks(replica), within=20)


async def test_free_ports_are_counted_before_anybody_is_sent_there(rig: HubRig) -> None:
    replica = await rig.add_replica()
    ports = [{"name": "game", "port": 7000, "protocol": "UDP"}]
    body: dict[str, Any] = {"spec": {"podTemplates": [{"name": "demo", "ports": ports}]}}
    await rig.direct.patch(SessionTemplate, "demo", rig.namespace, body=body)
    await eventually(lambda: replica.hub.template("demo").spec.pod_templates[0].ports)
    session = await made(replica)
    served = await replica.joining.join(session, "served", NEAR_PORTO)
    await eventually(lambda: replica.hub_view.client(served.binding).ready)
    # Its operator says how many there are, and nobody has ever got none.
    there = rig.members["porto"].namespace
    said = {"status": {"publicPorts": 2}}
    await rig.direct.patch(SessionTemplate, "demo", there, body=said, subresource="status")

    def heard() -> bool:
        member = replica.members.get("porto")
        found = member.template("demo") if member is not None else None
        return found is not None and found.status.public_ports == 2

    await eventually(heard)
    for client in ("second", "third"):
        await replica.joining.join(session, client, NEAR_PORTO)
    await seated(rig, served="porto", second="porto", third="paris")
    with pytest.raises(NoPlace, match="porto is full: no public UDP port is free"):
        await replica.joining.join(session, "fourth", JoinRequest(location="porto"))
    assert not marks(replica), "no client had to find out"
    await replica.joining.leave(session, "served")
    await eventually(lambda: replica.hub_view.ledger.seated("porto") == 1)
    await replica.joining.join(session, "fourth", NEAR_PORTO)
    await seated(rig, second="porto", third="paris", fourth="porto")


async def test_a_storm_of_late_clients_ends_with_each_in_one_place(
    rig: HubRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not all at once: five, and then five a second."""
    monkeypatch.setattr(late_clients, "BURST", 5)
    replicas = [await rig.add_replica() for _ in range(2)]
    session = await made(replicas[0])
    rig.members["porto"].stand_in.failing = NO_IMAGE
    clients = [f"client-{n}" for n in range(20)]
    await asyncio.gather(
        *(
            replicas[n % 2].joining.join(session, client, NEAR_PORTO)
            for n, client in enumerate(clients)
        )
    )
    # Some leave and come back in the middle of it, wherever they are.
    for number, client in enumerate(clients[:6]):
        await replicas[number % 2].joining.leave(session, client)
        await replicas[(number + 1) % 2].joining.join(session, client, NEAR_PORTO)
    began = time.monotonic()
    stayed = sum(cluster_of(replicas[0], session, client) == "porto" for client in clients)
    await seated(rig, **dict.fromkeys(clients, "paris"))
    assert time.monotonic() - began > (stayed - 5 - 1) / 5
    bindings = await rig.bindings()
    assert {client: each.spec.location for client, each in bindings.items()} == dict.fromkeys(
        clients, "paris"
    )


async def test_what_is_degraded_is_told_to_applications_and_not_to_clients(scene: Scene) -> None:
    await scene.app("POST", "/v1/sessions", {"template": "demo", "name": "room-1"})
    client = await scene.client()
    await degrade(scene.rig, scene.replica, timedelta(hours=1))
    shown = (await scene.app("GET", "/v1/locations")).body["items"]
    porto = next(each for each in shown if each["name"] == "porto")
    assert porto["state"] == "ready"
    assert porto["degraded"]["demo"].items() >= {**NO_MARK, "failures": 2}.items()
    shown = (await client("GET", "/v1/locations")).body["items"]
    assert [each["degraded"] for each in shown] == [{}, {}]
    joined = await client("PUT", ALICE, {"latencies": NEAR_PORTO.latencies})
    assert (joined.body["location"], joined.body["tried"]) == ("paris", [])
    assert "; porto is degraded for demo since 20" in joined.body["why"]
