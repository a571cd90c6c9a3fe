"""The SDK against a real server: from measuring to leaving, and what can come in between."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from edgewise.api.global_sessions import Location
from edgewise.client import (
    AlreadySeated,
    ApiError,
    Busy,
    Edgewise,
    EdgewiseError,
    NotAllowed,
    NotFound,
    NotReady,
    Unreachable,
)
from edgewise.client.sessions import seat as seat_module
from edgewise.client.sessions import views
from edgewise.client.transport import Transport
from edgewise.kube.kinds.core import Secret
from edgewise.server.identity.api_tokens import secret_name, token_id
from edgewise.server.identity.principal import Role
from edgewise.sessions.hub import views as server_views
from edgewise.sessions.hub.joining import JoinRequest
from edgewise.testing.eventually import eventually
from tests.integration.client.conftest import Scene


async def seats(scene: Scene, session: str = "room-1") -> set[str]:
    return {client for each in (await scene.rig.seats(session)).values() for client in each}


async def test_a_seat_from_measuring_to_leaving(scene: Scene) -> None:
    async with scene.edgewise().join("room-1", client="alice") as seat:
        assert seat.ready
        assert set(seat.measurements) == {"porto", "paris"}
        assert all(found.how == "udp" for found in seat.measurements.values())
        assert seat.location in ("porto", "paris")
        assert f"{seat.location}: " in seat.why
        assert seat.endpoint() == f"http://{seat.location}.test/s/room-1-alice/web/"
        assert seat.endpoint("web", "demo") == seat.endpoint()
        with pytest.raises(EdgewiseError, match="0 endpoints fit"):
            seat.endpoint("udp")
        assert await seats(scene) == {"alice"}
    assert await seats(scene) == set()
    assert await scene.rig.bindings() == {}


async def test_a_seat_is_given_up_when_the_program_fails(scene: Scene) -> None:
    with pytest.raises(ZeroDivisionError):
        async with scene.edgewise().join("room-1", client="alice"):
            raise ZeroDivisionError
    assert await seats(scene) == set()


async def test_a_client_with_its_own_token_and_many_seats_on_one_connection(scene: Scene) -> None:
    async with scene.edgewise() as edgewise:
        tokens = {c: (await edgewise.client_token("room-1", c)).token for c in ("alice", "bob")}
        async with (
            edgewise.join("room-1", client="carol", measure=False),
            Edgewise(scene.url, tokens["alice"]).join("room-1", client="alice"),
            Edgewise(scene.url, tokens["bob"]).join("room-1", client="bob", location="paris"),
        ):
            assert await seats(scene) == {"alice", "bob", "carol"}
            details = await edgewise.session("room-1")
            assert details.ready == 3
            assert details.clients_by_id["bob"].location == "paris"
        with pytest.raises(NotAllowed, match="for somebody else"):
            async with Edgewise(scene.url, tokens["alice"]).join("room-1", client="bob"):
                pass


async def test_a_client_whose_cluster_is_lost_is_followed(scene: Scene) -> None:
    async with scene.edgewise().join("room-1", client="alice", location="porto") as seat:
        views = []

        async def watch() -> None:
            async for view in seat.changes():
                views.append(view)

        watching = asyncio.create_task(watch())
        scene.rig.members["porto"].cut()
        await eventually(lambda: seat.location == "paris" and seat.ready, within=30)
        assert seat.endpoint() == "http://paris.test/s/room-1-alice/web/"
        assert seat.why.startswith("porto has not answered")
        assert [view.location for view in views][-1] == "paris"
        watching.cancel()
        scene.rig.members["porto"].heal()
    await eventually(lambda: _nobody(scene), within=15)


async def _nobody(scene: Scene) -> bool:
    return await seats(scene) == set()


async def test_who_was_given_up_comes_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = {"lease_seconds": 3}
    async with scene.edgewise().join("room-1", client="alice", **wish) as seat:
        session = scene.replica.hub.session("room-1")
        assert session is not None
        await scene.replica.joining.leave(session, "alice")
        assert await seats(scene) == set()

        async def back() -> bool:
            return await seats(scene) == {"alice"} and seat.ready

        await eventually(back, within=15)


async def test_who_was_taken_for_lost_is_brought_back_by_a_heartbeat(scene: Scene) -> None:
    async with scene.edgewise().join("room-1", client="alice", lease_seconds=3) as seat:
        session = scene.replica.hub.session("room-1")
        assert session is not None
        await scene.replica.joining.disconnect(session, "alice")
        await eventually(lambda: seat.state == "disconnected")
        await eventually(lambda: seat.ready, within=15)


async def test_who_sits_elsewhere_is_told_where(scene: Scene) -> None:
    async with scene.edgewise().join("room-1", client="alice", location="porto"):
        with pytest.raises(AlreadySeated) as refused:
            async with scene.edgewise().join("room-1", client="alice", location="paris"):
                pass
        assert refused.value.location == "porto"
        assert await seats(scene) == {"alice"}


async def test_full_locations_let_wait_and_then_say_so(scene: Scene) -> None:
    await scene.rig.add_template("patient", queue_seconds=60)
    for name in ("porto", "paris"):
        body = {"spec": {"capacity": 0}}
        await scene.rig.direct.patch(Location, name, scene.rig.namespace, body=body)
    await eventually(lambda: scene.replica.hub.template("patient") is not None)
    await eventually(
        lambda: all(each.state == "full" for each in scene.replica.hub_view.locations())
    )
    async with scene.edgewise() as edgewise:
        await edgewise.create_session("patient", "room-2")
        with pytest.raises(NotReady, match="number 1 in the queue"):
            async with edgewise.join("room-2", client="alice", ready_within=1):
                pass

        async def open_up() -> None:
            await asyncio.sleep(0.5)
            body = {"spec": {"capacity": 1}}
            await scene.rig.direct.patch(Location, "porto", scene.rig.namespace, body=body)

        opening = asyncio.create_task(open_up())
        async with edgewise.join("room-2", client="bob", ready_within=30) as seat:
            assert seat.location == "porto"
        await opening
        with pytest.raises(Busy, match="is full"):
            async with edgewise.join("room-1", client="carol", location="paris", ready_within=1):
                pass


async def test_an_outage_of_the_hub_is_waited_out(scene: Scene) -> None:
    proxy = scene.rig.hub_proxies[0]
    proxy.refusing = True
    proxy.cut_all()
    await eventually(lambda: not scene.replica.hub.link.ready)

    async def heal() -> None:
        await asyncio.sleep(1)
        proxy.refusing = False

    healing = asyncio.create_task(heal())
    async with scene.edgewise().join("room-1", client="alice", ready_within=30) as seat:
        assert seat.ready
    await healing


async def test_a_token_that_is_revoked_shows_at_the_seat(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(seat_module, "LEAVE_SECONDS", 0.0)
    beats: list[str] = []
    send = Transport.call

    async def counting(self: Transport, method: str, path: str, *rest: Any, **options: Any) -> Any:
        if path.endswith("/heartbeat"):
            beats.append(path)
        return await send(self, method, path, *rest, **options)

    monkeypatch.setattr(Transport, "call", counting)
    token = await scene.rig.add_token(Role.APP, "arena")
    await eventually(lambda: scene.replica.credentials.api_token(token_id(token)) is not None)
    async with Edgewise(scene.url, token).join("room-1", client="alice", lease_seconds=3) as seat:
        assert seat.trouble is None
        changes = seat.changes()
        await anext(changes)
        await scene.rig.direct.delete(Secret, secret_name(token_id(token)), scene.rig.namespace)
        async with asyncio.timeout(15):
            while not isinstance(seat.trouble, NotAllowed):
                await anext(changes)
        # Two more that got their refusal, about which nothing more is said.
        enough = len(beats) + 3
        await eventually(lambda: len(beats) >= enough, within=20)
    assert sum("is not heard" in line for line in caplog.messages) == 1


async def test_mistakes_are_sentences(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat_module, "LEAVE_SECONDS", 0.0)
    with pytest.raises(EdgewiseError, match="say https:"):
        async with Edgewise("edge.example.org", "x").join("room-1", client="alice"):
            pass
    with pytest.raises(Unreachable, match="does not answer"):
        async with Edgewise("http://127.0.0.1:1", "x").join(
            "room-1", client="alice", measure=False, ready_within=0.5
        ):
            pass
    with pytest.raises(NotAllowed, match="not well formed"):
        async with Edgewise(scene.url, "x").join("room-1", client="alice"):
            pass
    with pytest.raises(NotFound, match="no session 'room-9'"):
        async with scene.edgewise().join("room-9", client="alice"):
            pass
    with pytest.raises(ApiError, match="client must have 1 to 63") as refused:
        async with scene.edgewise().join("room-1", client="a b"):
            pass
    assert refused.value.status == 400
    assert refused.value.request_id


async def test_an_application_looks_after_clients_itself(scene: Scene) -> None:
    async with scene.edgewise() as edgewise:
        assert [template.name for template in await edgewise.templates()] == ["demo"]
        assert {place.name for place in await edgewise.locations()} == {"porto", "paris"}
        placed = await edgewise.place("room-1", "alice", wait=10, lease_seconds=0)
        assert placed.ready
        assert (await edgewise.disconnect("room-1", "alice")).state == "disconnected"
        assert (await edgewise.place("room-1", "alice", wait=10)).ready
        assert (await edgewise.client("room-1", "alice")).location == placed.location
        await edgewise.leave("room-1", "alice")
        assert [session.name for session in await edgewise.sessions()] == ["room-1"]
        assert (await edgewise.delete_session("room-1")).state == "deleting"


def test_sdk_and_server_mean_the_same_by_a_client() -> None:
    """The SDK has types of its own, since it can be taken out of the house."""
    ours = {field.encode_name for field in msgspec.structs.fields(views.ClientView)}
    theirs = {field.encode_name for field in msgspec.structs.fields(server_views.ClientView)}
    assert ours <= theirs
    assert {"location", "latencies", "move", "leaseSeconds"} == {
        field.encode_name for field in msgspec.structs.fields(JoinRequest)
    }
