"""What falls silent: clients, member clusters, and the hub itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from edgewise.api.clusters import Cluster
from edgewise.api.global_sessions import BindingState, Failover, GlobalSession
from edgewise.runtime.heartbeats import presence
from edgewise.sessions.hub.changes import Thing
from edgewise.sessions.hub.errors import HubUnreachable
from edgewise.sessions.hub.joining import JoinRequest
from edgewise.sessions.hub.lifecycle import NewSession
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from edgewise.testing.sessions_replica import SessionsReplica


async def made(replica: SessionsReplica, name: str = "room-1", **fields: object) -> GlobalSession:
    new = NewSession(template="demo", name=name, **fields)  # type: ignore[arg-type]
    session, _ = await replica.lifecycle.create(new, owner="arena")
    return session


def state(replica: SessionsReplica, session: GlobalSession, client: str) -> BindingState | None:
    binding = replica.hub.binding(session, client)
    return binding.spec.state if binding is not None else None


@pytest.fixture
def _quick_books(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "FLUSH_SECONDS", 0.2)


@pytest.mark.usefixtures("_quick_books")
async def test_a_client_whose_heartbeats_stop_is_lost_and_then_gone(rig: HubRig) -> None:
    await rig.add_template("short", timeout_seconds=1)
    replica, other = await rig.add_replica(), await rig.add_replica()
    await eventually(lambda: replica.leading)
    new = NewSession(template="short", name="room-1")
    session, _ = await replica.lifecycle.create(new, owner="arena")
    await replica.joining.join(session, "trusted", JoinRequest(lease_seconds=0))
    await replica.joining.join(session, "silent", JoinRequest(lease_seconds=8))
    heard = await replica.joining.join(session, "heard", JoinRequest(lease_seconds=8))
    # By the replica that does not lead.
    async with beating(other, heard.binding.metadata.name):
        await eventually(
            lambda: state(replica, session, "silent") is BindingState.DISCONNECTED, within=30
        )
        assert state(replica, session, "heard") is BindingState.SEATED
        assert state(replica, session, "trusted") is BindingState.SEATED
        await eventually(lambda: _is_lost(rig))
        await eventually(lambda: state(replica, session, "silent") is None, within=20)

        async def only_the_others_sit() -> bool:
            seats = await rig.seats("room-1")
            return {*seats["porto"], *seats["paris"]} == {"heard", "trusted"}

        await eventually(only_the_others_sit)


@contextlib.asynccontextmanager
async def beating(replica: SessionsReplica, binding: str) -> AsyncIterator[None]:
    async def beat() -> None:
        while True:
            replica.presence.beat(binding)
            await asyncio.sleep(0.1)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()


async def _is_lost(rig: HubRig) -> bool:
    seats = await rig.seats("room-1")
    entries = {**seats["porto"], **seats["paris"]}
    return entries.get("silent") == {"connected": False}


async def test_heartbeats_cost_no_write_each(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    joined = await replica.joining.join(session, "alice", JoinRequest())
    name = joined.binding.metadata.name
    before = replica.hub.heartbeats.revision
    for _ in range(1000):
        replica.presence.beat(name)
    await replica.presence.flush()
    await replica.presence.flush()
    await eventually(lambda: len(replica.hub.heartbeats) == 1)
    assert replica.hub.heartbeats.revision > before
    assert [len(book.binary_data["heard"]) for book in replica.hub.heartbeats] == [9]


async def test_clients_of_a_lost_cluster_are_moved_and_do_not_come_back_twice(
    rig: HubRig,
) -> None:
    replica = await rig.add_replica()
    moving = await made(replica, "room-1")
    staying = await made(replica, "room-2", failover=Failover.STAY)
    for session in (moving, staying):
        for n in range(5):
            await replica.joining.join(session, f"client-{n}", JoinRequest(location="porto"))
    rig.members["porto"].cut()
    await eventually(lambda: replica.members.get("porto").lost, within=20)  # type: ignore[union-attr]

    async def moved() -> bool:
        return len((await rig.seats("room-1"))["paris"]) == 5

    await eventually(moved, within=15)
    binding = replica.hub.binding(moving, "client-0")
    assert binding is not None
    assert binding.spec.moves == 1
    assert binding.spec.why.startswith("porto has not answered since 20")
    assert (await rig.seats("room-2"))["paris"] == {}

    rig.members["porto"].heal()

    async def nobody_in_two() -> bool:
        seats, others = await rig.seats("room-1"), await rig.seats("room-2")
        return (len(seats["porto"]), len(seats["paris"])) == (0, 5) and len(others["porto"]) == 5

    await eventually(nobody_in_two, within=15)


@pytest.mark.parametrize("failover", Failover)
async def test_clients_of_a_removed_cluster_are_moved(rig: HubRig, failover: Failover) -> None:
    """To stay in a cluster that is no longer there is to be nowhere."""
    replica = await rig.add_replica()
    session = await made(replica, failover=failover)
    await replica.joining.join(session, "alice", JoinRequest(location="porto"))
    await rig.direct.delete(Cluster, "porto", rig.namespace)

    async def moved() -> bool:
        return "alice" in (await rig.seats("room-1"))["paris"]

    await eventually(moved, within=15)


async def test_without_the_hub_those_who_sit_stay_and_the_rest_is_told_so(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    await replica.joining.join(session, "alice", JoinRequest(location="porto", lease_seconds=2))
    await eventually(lambda: state(replica, session, "alice") is BindingState.SEATED)
    proxy = rig.hub_proxies[0]
    proxy.refusing = True
    proxy.cut_all()
    await eventually(lambda: not replica.hub.link.ready)
    again = await replica.joining.join(session, "alice", JoinRequest())
    assert again.binding.spec.location == "porto"
    view = replica.hub_view.session(session)
    assert set(view.clients_by_id) == {"alice"}
    for attempt in (
        replica.joining.join(session, "bob", JoinRequest()),
        replica.joining.leave(session, "alice"),
        replica.joining.disconnect(session, "alice"),
        replica.lifecycle.create(NewSession(template="demo"), owner="arena"),
        replica.lifecycle.delete(session),
    ):
        with pytest.raises(HubUnreachable, match="stays seated"):
            await attempt
    proxy.refusing = False
    await eventually(lambda: replica.hub.link.ready, within=20)
    # Nobody was blamed for a silence that could not be heard.
    assert state(replica, session, "alice") is BindingState.SEATED
    assert (await replica.joining.join(session, "bob", JoinRequest())).new


async def test_a_health_that_changes_is_shown_in_the_object(rig: HubRig) -> None:
    replica = await rig.add_replica()

    def shown() -> str:
        cluster = replica.hub.registry.cluster("porto")
        return cluster.status.health if cluster is not None else ""

    await eventually(lambda: shown() == "Ready", within=20)
    rig.members["porto"].cut()
    await eventually(lambda: shown() == "Lost", within=20)
    rig.members["porto"].heal()
    await eventually(lambda: shown() == "Ready", within=20)


async def test_who_is_lost_is_not_found_again_by_being_moved(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    for client in ("there", "lost", "back"):
        await replica.joining.join(session, client, JoinRequest(location="porto"))
    for client in ("lost", "back"):
        await replica.joining.disconnect(session, client)
    rig.members["porto"].cut()

    def cluster(client: str) -> str:
        binding = replica.hub.binding(session, client)
        return binding.spec.location if binding is not None else ""

    await eventually(lambda: cluster("there") == "paris", within=20)
    assert (cluster("lost"), state(replica, session, "lost")) == (
        "porto",
        BindingState.DISCONNECTED,
    )
    await replica.joining.reconnect(session, "back")
    await eventually(lambda: cluster("back") == "paris")
    assert (cluster("lost"), state(replica, session, "lost")) == (
        "porto",
        BindingState.DISCONNECTED,
    )


async def test_who_was_ready_in_a_silent_cluster_is_suspect_and_then_again_ready(
    rig: HubRig,
) -> None:
    replica = await rig.add_replica()
    session = await made(replica, failover=Failover.STAY)
    joined = await replica.joining.join(session, "alice", JoinRequest(location="porto"))
    binding = joined.binding
    await eventually(lambda: replica.hub_view.client(binding).ready)
    rig.members["porto"].stand_in.holding_back = True
    unserved = await replica.joining.join(session, "bob", JoinRequest(location="porto"))
    with replica.hub_view.changes.subscribe(("room-1", "alice")) as watcher:
        watcher.take()
        rig.members["porto"].cut()
        await asyncio.wait_for(watcher.wait(), 20)
        suspect = replica.hub_view.client(binding)
        assert (suspect.state, suspect.ready) == ("suspect", False)
        assert suspect.message == f"porto has not answered since {suspect.since:%Y-%m-%dT%H:%M:%SZ}"
        # Nobody says that somebody was ready who never was.
        assert replica.hub_view.client(unserved.binding).state == "joining"
        summary = replica.hub_view.summary(session)
        assert (summary.ready, summary.suspect, summary.clients) == (0, 1, 2)
        location = replica.hub_view.location("porto")
        assert location is not None
        assert (location.state, location.since) == ("unhealthy", suspect.since)
        await eventually(lambda: replica.members.get("porto").lost, within=20)  # type: ignore[union-attr]
        assert replica.hub_view.client(binding) == suspect
        rig.members["porto"].heal()
        await eventually(lambda: replica.hub_view.client(binding).ready, within=20)
        assert Thing("client", "room-1", "alice") in watcher.take()
