"""What a client can do with a token of its own, and until when."""

from __future__ import annotations

from edgewise.api.global_sessions import GlobalSession
from edgewise.kube.kinds.core import Secret
from edgewise.server.identity.client_tokens import SECRET_NAME
from edgewise.testing.eventually import eventually
from tests.integration.server.scene import ALICE, Scene, made


async def test_a_client_cannot_ask_never_to_be_missed(scene: Scene) -> None:
    await made(scene.app)
    alice = await scene.client()
    for seconds in (0, 301, 86_400):
        answer = await alice("PUT", ALICE, {"leaseSeconds": seconds})
        assert answer.status == 422, seconds
        assert "a lease of 1 to 300 seconds" in answer.body["detail"]
    assert (await alice("PUT", ALICE, {"leaseSeconds": 300})).status == 201
    bob = ALICE.replace("alice", "bob")
    assert (await scene.app("PUT", bob, {"leaseSeconds": 0})).status == 201


async def test_whoever_deletes_the_keys_ends_all_client_tokens(scene: Scene) -> None:
    await made(scene.app)
    alice = await scene.client()
    assert (await alice("GET", "/v1/locations")).status == 200
    await scene.rig.direct.delete(Secret, SECRET_NAME, scene.rig.namespace)

    async def refused() -> bool:
        return (await alice("GET", "/v1/locations")).status == 401

    await eventually(refused)
    again = await scene.client()
    assert (await again("GET", "/v1/locations")).status == 200


async def test_whom_the_application_takes_out_cannot_come_back_by_itself(scene: Scene) -> None:
    await made(scene.app)
    other = await scene.rig.add_replica()
    url = await scene.rig.add_server(other)
    alice = await scene.client()
    assert (await alice("PUT", ALICE)).status == 201
    assert (await scene.app("DELETE", ALICE)).status == 204
    for caller in (alice, alice.at(url)):
        answer = await caller("PUT", ALICE)
        assert (answer.status, answer.body["type"]) == (401, "/problems/unauthenticated")
        assert "ask the application for a new token" in answer.body["detail"]

    async def silenced() -> bool:
        return (await alice.at(url)("POST", f"{ALICE}/heartbeat")).status == 401

    await eventually(silenced)
    assert await scene.rig.bindings() == {}
    # A replica that was not there then knows of it, too.
    late = await scene.rig.add_server(await scene.rig.add_replica())
    assert (await alice.at(late)("PUT", ALICE)).status == 401
    # The application decides when it may come back.
    again = await scene.client()
    assert (await again.at(late)("PUT", ALICE)).status == 201
    assert (await alice("PUT", ALICE)).status == 401


async def test_who_leaves_by_itself_may_come_back_by_itself(scene: Scene) -> None:
    await made(scene.app)
    alice = await scene.client()
    for _ in range(2):
        assert (await alice("PUT", ALICE)).status == 201
        assert (await alice("DELETE", ALICE)).status == 204


async def test_where_nobody_has_a_token_nothing_is_written_for_a_removal(scene: Scene) -> None:
    await made(scene.app)
    await scene.app("PUT", ALICE)
    await scene.app("DELETE", ALICE)
    found = await scene.rig.direct.get(GlobalSession, "room-1", scene.rig.namespace)
    assert found.metadata.annotations == {}
