"""What those who watch are told, and when they are told no more."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import aiohttp
import msgspec
import pytest

from edgewise.kube.kinds.core import Secret
from edgewise.server.identity.api_tokens import secret_name, token_id
from edgewise.server.identity.principal import Role
from edgewise.server.routes.sessions import events as event_routes
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from tests.integration.server.http_client import Caller
from tests.integration.server.scene import ALICE, Scene, made, made_again


class Watcher:
    """Reads a stream in the background, and remembers what it was told."""

    def __init__(self, caller: Caller, path: str, last_id: str = "") -> None:
        self.caller = caller
        self.events: list[tuple[str, Any]] = []
        self.last_id = last_id
        self._task = asyncio.create_task(self._run(caller, path))

    async def _run(self, caller: Caller, path: str) -> None:
        async for name, data, id in caller.events(path, self.last_id):
            self.events.append((name, data))
            self.last_id = id

    def named(self, name: str) -> list[Any]:
        return [data for event, data in self.events if event == name]

    @property
    def ended(self) -> bool:
        return self._task.done()

    async def stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, AssertionError):
            await self._task


async def test_a_client_sees_itself_become_ready_move_and_go(scene: Scene) -> None:
    await made(scene.app)
    watcher = Watcher(scene.app, f"{ALICE}/events")
    await eventually(lambda: watcher.events)
    assert watcher.events[0] == ("snapshot", None)
    await scene.app("PUT", ALICE, {"location": "porto"})
    await eventually(lambda: any(data["ready"] for data in watcher.named("client")))
    await scene.app("PUT", ALICE, {"location": "paris", "move": True})
    await eventually(
        lambda: any(
            data["ready"] and data["location"] == "paris" for data in watcher.named("client")
        )
    )
    await scene.app("DELETE", ALICE)
    await eventually(lambda: watcher.named("client-gone"))
    await scene.app("DELETE", "/v1/sessions/room-1")
    await eventually(lambda: watcher.named("session-gone"), within=15)
    await watcher.stop()


async def test_who_reconnects_to_another_replica_misses_nothing(rig: HubRig) -> None:
    replicas = [await rig.add_replica() for _ in range(2)]
    urls = [await rig.add_server(replica) for replica in replicas]
    token = await rig.add_token(Role.APP, "arena")
    for replica in replicas:
        await eventually(
            lambda known=replica.credentials: known.api_token(token_id(token)) is not None
        )
    async with aiohttp.ClientSession() as http:
        callers = [Caller(http, url, token) for url in urls]
        await made(callers[0])
        path = "/v1/sessions/room-1/events"
        watcher = Watcher(callers[0], path)
        await callers[0]("PUT", "/v1/sessions/room-1/clients/stays?wait=5")
        await callers[0]("PUT", "/v1/sessions/room-1/clients/goes?wait=5")
        await eventually(lambda: len([d for d in watcher.named("client") if d["ready"]]) >= 2)
        await watcher.stop()

        await callers[1]("DELETE", "/v1/sessions/room-1/clients/goes")
        await callers[1]("PUT", "/v1/sessions/room-1/clients/comes?wait=5")
        resumed = Watcher(callers[1], path, watcher.last_id)
        await eventually(lambda: resumed.named("client-gone") and resumed.named("client"))
        assert resumed.named("snapshot") == []
        assert {data["client"] for data in resumed.named("client-gone")} == {"goes"}
        assert "comes" in {data["client"] for data in resumed.named("client")}
        await resumed.stop()

        lost = Watcher(callers[1], path, "b:1,f:1")
        await eventually(lambda: lost.events)
        assert set(lost.named("snapshot")[0]["clientsById"]) == {"stays", "comes"}
        await lost.stop()


async def test_everything_is_for_readers(scene: Scene) -> None:
    reader = await scene.caller(Role.READER, "page")
    watcher = Watcher(reader, "/v1/events")
    await eventually(lambda: watcher.events)
    picture = watcher.named("snapshot")[0]
    assert [each["name"] for each in picture["locations"]] == ["paris", "porto"]
    await made(scene.app)
    await scene.app("PUT", f"{ALICE}?wait=10", {"location": "porto"})
    await eventually(lambda: any(data["ready"] == 1 for data in watcher.named("session")))
    scene.rig.members["porto"].cut()
    await eventually(
        lambda: any(data["state"] == "unhealthy" for data in watcher.named("location"))
    )
    await eventually(lambda: any(data["suspect"] == 1 for data in watcher.named("session")))
    assert watcher.named("client") == []
    await watcher.stop()
    assert (await scene.app("GET", "/v1/events")).status == 403


async def test_a_stream_ends_when_its_token_does(scene: Scene) -> None:
    reader = await scene.caller(Role.READER, "page")
    watcher = Watcher(reader, "/v1/events")
    await eventually(lambda: watcher.events)
    id = token_id(reader.headers["Authorization"].removeprefix("Bearer "))
    await scene.rig.direct.delete(Secret, secret_name(id), scene.rig.namespace)
    await eventually(lambda: watcher.ended)
    await watcher.stop()


async def test_a_stream_that_always_has_something_to_tell_ends_with_its_token(
    scene: Scene,
) -> None:
    await made(scene.app)
    token_ends = time.time() + 3
    watchers = [
        Watcher(await scene.caller(Role.ADMIN, "ops"), "/v1/sessions/room-1/events"),
        Watcher(
            await scene.caller(Role.ADMIN, "ops", expires=token_ends), "/v1/sessions/room-1/events"
        ),
    ]
    await eventually(lambda: all(watcher.events for watcher in watchers))
    revoked = watchers[0].caller.headers["Authorization"].removeprefix("Bearer ")
    await scene.rig.direct.delete(Secret, secret_name(token_id(revoked)), scene.rig.namespace)

    async def both_ended() -> bool:
        # Something changes all the time, so no stream is ever idle.
        await scene.app("PUT", ALICE)
        await scene.app("DELETE", ALICE)
        return all(watcher.ended for watcher in watchers)

    await eventually(both_ended, within=12, every=0.05)
    assert time.time() < token_ends + 5
    for watcher in watchers:
        await watcher.stop()


@pytest.mark.parametrize("path", ["/v1/sessions/room-1/events", f"{ALICE}/events"])
async def test_a_stream_is_about_one_session_and_not_about_its_name(
    scene: Scene, path: str
) -> None:
    await made(scene.app)
    watcher = Watcher(scene.app, path)
    await eventually(lambda: watcher.events)
    other = await scene.caller(Role.APP, "other")
    await scene.app("DELETE", "/v1/sessions/room-1")
    await made_again(other)
    assert (await other("PUT", f"{ALICE}?wait=10")).body["ready"]
    await eventually(lambda: watcher.ended)
    assert watcher.events[-1] == ("session-gone", {"session": "room-1"})
    assert watcher.named("client") == []
    await watcher.stop()


async def test_a_session_of_the_same_name_that_was_missed_ends_a_stream(scene: Scene) -> None:
    """The cache may go from one to the other at once, after an outage of the hub."""
    await made(scene.app)
    watcher = Watcher(scene.app, "/v1/sessions/room-1/events")
    await eventually(lambda: watcher.events)
    sessions = scene.replica.hub.sessions
    (session,) = sessions
    meta = msgspec.structs.replace(session.metadata, uid="another", resource_version="99999999")
    sessions.replace([msgspec.structs.replace(session, metadata=meta)], "99999999")
    await eventually(lambda: watcher.ended)
    assert watcher.named("session") == []
    assert watcher.events[-1] == ("session-gone", {"session": "room-1"})
    await watcher.stop()


async def test_whom_the_application_takes_out_is_told_no_more(scene: Scene) -> None:
    await made(scene.app)
    watcher = Watcher(await scene.client(), f"{ALICE}/events")
    await eventually(lambda: watcher.events)
    assert (await scene.app("DELETE", ALICE)).status == 204
    await eventually(lambda: watcher.ended)
    await watcher.stop()


async def test_a_client_cannot_open_streams_without_end(scene: Scene) -> None:
    await made(scene.app)
    issued = await scene.app("POST", f"{ALICE}/token")
    alice = Caller(scene.app.http, scene.app.url, issued.body["token"])
    watchers = [Watcher(alice, f"{ALICE}/events") for _ in range(event_routes.MOST_OF_A_CLIENT)]
    await eventually(lambda: all(watcher.events for watcher in watchers))
    refused = await alice("GET", f"{ALICE}/events")
    assert (refused.status, refused.body["type"]) == (429, "/problems/too-many-requests")
    for watcher in watchers:
        await watcher.stop()

    async def there_is_room_again() -> bool:
        again = Watcher(alice, f"{ALICE}/events")
        try:
            await eventually(lambda: again.events or again.ended)
            return bool(again.events)
        finally:
            await again.stop()

    await eventually(there_is_room_again, within=60, every=0.1)
