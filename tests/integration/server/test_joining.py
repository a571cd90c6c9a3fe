"""Joining, leaving, losing and coming back, over two clusters and through two replicas."""

from __future__ import annotations

import pytest

from edgewise.api.global_sessions import BindingState, GlobalSession
from edgewise.runtime.errors import NotThere, Refused, Unacceptable, Unavailable
from edgewise.sessions.hub.errors import AlreadySeated, NoPlace
from edgewise.sessions.hub.joining import JoinRequest
from edgewise.sessions.hub.lifecycle import NewSession
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from edgewise.testing.sessions_replica import SessionsReplica

NEAR_PORTO = JoinRequest(latencies={"porto": 5.0, "paris": 30.0})


async def made(replica: SessionsReplica, name: str = "room-1", **fields: object) -> GlobalSession:
    new = NewSession(template="demo", name=name, **fields)  # type: ignore[arg-type]
    session, _ = await replica.lifecycle.create(new, owner="arena")
    return session


async def test_a_client_sits_where_it_is_best_and_becomes_ready(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    assert await rig.seats("room-1") == {"porto": {}, "paris": {}}
    joined = await replica.joining.join(session, "alice", NEAR_PORTO)
    assert joined.new
    assert joined.binding.spec.location == "porto"
    assert joined.binding.spec.why.startswith("porto: 5 ms away")
    assert await rig.seats("room-1") == {"porto": {"alice": {"connected": True}}, "paris": {}}
    await eventually(lambda: replica.hub_view.client(joined.binding).ready)
    view = replica.hub_view.client(joined.binding)
    assert view.endpoints == {"demo": {"web": "http://porto.test/s/room-1-alice/web/"}}


async def test_joining_again_changes_nothing(rig: HubRig) -> None:
    replica, other = await rig.add_replica(), await rig.add_replica()
    session = await made(replica)
    first = await replica.joining.join(session, "alice", NEAR_PORTO)
    for each in (replica, other, replica):
        again = await each.joining.join(session, "alice", JoinRequest(latencies={"paris": 1.0}))
        assert not again.new
        assert again.binding.metadata.uid == first.binding.metadata.uid
        assert again.binding.spec.location == "porto"


async def test_asking_for_another_place_tells_where_the_client_is(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    await replica.joining.join(session, "alice", JoinRequest(location="porto"))
    with pytest.raises(AlreadySeated) as refused:
        await replica.joining.join(session, "alice", JoinRequest(location="paris"))
    assert refused.value.location == "porto"


async def test_a_move_ends_in_exactly_the_other_place(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    await replica.joining.join(session, "alice", JoinRequest(location="porto"))
    moved = await replica.joining.join(session, "alice", JoinRequest(location="paris", move=True))
    assert (moved.binding.spec.location, moved.binding.spec.moves) == ("paris", 1)
    assert await rig.seats("room-1") == {"porto": {}, "paris": {"alice": {"connected": True}}}


async def test_leaving_is_final_and_can_be_repeated(rig: HubRig) -> None:
    replica, other = await rig.add_replica(), await rig.add_replica()
    session = await made(replica)
    await replica.joining.join(session, "alice", NEAR_PORTO)
    for each in (other, replica, other):
        await each.joining.leave(session, "alice")
    assert await rig.bindings() == {}
    assert await rig.seats("room-1") == {"porto": {}, "paris": {}}


async def test_a_lost_client_keeps_its_seat_and_comes_back_to_it(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    await replica.joining.join(session, "alice", NEAR_PORTO)
    lost = await replica.joining.disconnect(session, "alice")
    assert lost.spec.state is BindingState.DISCONNECTED
    assert (await rig.seats("room-1"))["porto"] == {"alice": {"connected": False}}
    back = await replica.joining.join(session, "alice", JoinRequest(latencies={"paris": 1.0}))
    assert (back.binding.spec.state, back.binding.spec.location) == (BindingState.SEATED, "porto")
    assert (await rig.seats("room-1"))["porto"] == {"alice": {"connected": True}}


async def test_who_is_not_there_cannot_be_lost(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    with pytest.raises(NotThere, match="join first"):
        await replica.joining.disconnect(session, "nobody")


async def test_places_that_make_no_sense_are_refused(rig: HubRig) -> None:
    replica = await rig.add_replica()
    session = await made(replica, locations=["porto"])
    for wish, said in (
        (JoinRequest(location="mars"), "mars is not a known location"),
        (JoinRequest(location="paris"), "paris is not a location of this session"),
        (JoinRequest(move=True), "a move needs a location"),
        (JoinRequest(location="mars", move=True), "mars is not a known location"),
    ):
        with pytest.raises(Unacceptable, match=said):
            await replica.joining.join(session, "alice", wish)
    assert await rig.bindings() == {}


async def test_cordoned_and_silent_places_are_not_chosen(rig: HubRig) -> None:
    await rig.add_member("rome", cordoned=True)
    replica = await rig.add_replica()
    session = await made(replica)
    rig.members["porto"].cut()
    await eventually(lambda: replica.members.trouble("porto"))
    wish = JoinRequest(latencies={"rome": 1.0, "porto": 2.0, "paris": 90.0})
    joined = await replica.joining.join(session, "alice", wish)
    assert joined.binding.spec.location == "paris"
    with pytest.raises(Unavailable, match="porto has not answered"):
        await replica.joining.join(session, "bob", JoinRequest(location="porto"))
    with pytest.raises(NoPlace, match="rome is cordoned"):
        await replica.joining.join(session, "bob", JoinRequest(location="rome"))


async def test_a_place_that_fails_in_the_middle_of_a_join_is_left_for_another(
    rig: HubRig,
) -> None:
    replica = await rig.add_replica()
    session = await made(replica)
    rig.members["porto"].cut()  # nobody has noticed yet
    joined = await replica.joining.join(session, "alice", NEAR_PORTO)
    assert joined.binding.spec.location == "paris"
    rig.members["porto"].heal()
    await eventually(lambda: replica.hub_view.client(joined.binding).ready)
    assert await rig.seats("room-1") == {"porto": {}, "paris": {"alice": {"connected": True}}}


async def test_a_session_that_is_full_by_its_template(rig: HubRig) -> None:
    await rig.add_template("small", max_clients=2)
    replica = await rig.add_replica()
    new = NewSession(template="small", name="room-2")
    session, _ = await replica.lifecycle.create(new, owner="arena")
    for client in ("a", "b"):
        await replica.joining.join(session, client, JoinRequest())
    await eventually(lambda: replica.hub_view.ledger.in_session(session.metadata.uid) == 2)
    with pytest.raises(Refused, match="allows 2 clients"):
        await replica.joining.join(session, "c", JoinRequest())
    await replica.joining.leave(session, "a")
    await eventually(lambda: replica.hub_view.ledger.in_session(session.metadata.uid) == 1)
    assert (await replica.joining.join(session, "c", JoinRequest())).new
