"""The HTTP API as a caller meets it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from typing import Any

import aiohttp
import pytest

from edgewise.api.global_sessions import Location
from edgewise.api.secrets import SECRET_LABEL
from edgewise.exposure.seats import seat_token
from edgewise.kube.kinds.core import Secret
from edgewise.server.http.guard import Rates
from edgewise.server.identity.api_tokens import secret_name, token_id
from edgewise.server.identity.principal import Role
from edgewise.sessions.hub.lookups import MISS_SECONDS
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from tests.integration.server.http_client import Caller
from tests.integration.server.scene import ALICE, Scene, made, made_again


async def test_a_session_from_making_to_taking_down(scene: Scene) -> None:
    app = scene.app
    answer = await app("POST", "/v1/sessions", {"template": "demo", "name": "room-1"})
    assert answer.status == 201
    assert answer.body["owner"] == "arena"
    assert set(answer.body["locations"]) == {"porto", "paris"}

    wish = {"latencies": {"porto": 50, "paris": 5}}
    joined = await app("PUT", f"{ALICE}?wait=10", wish)
    assert joined.status == 201
    assert joined.body["state"] == "ready"
    assert joined.body["location"] == "paris"
    assert joined.body["why"].startswith("paris: 5 ms away")
    assert joined.body["endpoints"] == {"demo": {"web": "http://paris.test/s/room-1-alice/web/"}}
    again = await app("PUT", ALICE)
    assert (again.status, again.body["location"]) == (200, "paris")

    refused = await app("PUT", ALICE, {"location": "porto"})
    assert (refused.status, refused.body["type"]) == (409, "/problems/already-seated")
    assert refused.body["location"] == "paris"
    moved = await app("PUT", f"{ALICE}?wait=10", {"location": "porto", "move": True})
    assert (moved.body["location"], moved.body["ready"], moved.body["moves"]) == ("porto", True, 1)

    beat = await app("POST", f"{ALICE}/heartbeat")
    assert (beat.status, beat.body["client"]["location"], beat.body["token"]) == (
        200,
        "porto",
        None,
    )
    lost = await app("POST", f"{ALICE}/disconnect")
    assert (lost.status, lost.body["state"]) == (200, "disconnected")
    back = await app("POST", f"{ALICE}/heartbeat")
    assert back.body["client"]["state"] in ("joining", "ready")

    shown = await app("GET", "/v1/sessions/room-1")
    assert shown.body["clients"] == 1
    assert list(shown.body["clientsById"]) == ["alice"]
    listed = await app("GET", "/v1/sessions")
    assert [each["name"] for each in listed.body["items"]] == ["room-1"]

    for _ in range(2):
        assert (await app("DELETE", ALICE)).status == 204
    gone = await app("DELETE", "/v1/sessions/room-1")
    assert (gone.status, gone.body["state"]) == (202, "deleting")

    async def nowhere() -> bool:
        return (await app("GET", "/v1/sessions/room-1")).status == 404

    await eventually(nowhere, within=15)


async def test_a_client_acts_with_its_own_token(scene: Scene) -> None:
    await made(scene.app)
    issued = await scene.app("POST", f"{ALICE}/token")
    assert issued.status == 201
    alice = Caller(scene.app.http, scene.app.url, issued.body["token"])
    locations = await alice("GET", "/v1/locations")
    assert [each["name"] for each in locations.body["items"]] == ["paris", "porto"]
    assert (await alice("PUT", f"{ALICE}?wait=10")).body["ready"] is True
    assert (await alice("GET", ALICE)).status == 200
    assert (await alice("POST", f"{ALICE}/heartbeat")).status == 200
    assert (await alice("DELETE", ALICE)).status == 204
    bob = await alice("PUT", "/v1/sessions/room-1/clients/bob")
    assert (bob.status, bob.body["type"]) == (403, "/problems/forbidden")
    # A new session of the same name is another one.
    await scene.app("DELETE", "/v1/sessions/room-1")
    await made_again(scene.app)
    assert (await alice("PUT", ALICE)).status == 404


async def test_repeating_a_call_is_safe(scene: Scene) -> None:
    body = {"template": "demo"}
    first = await scene.app("POST", "/v1/sessions", body, headers={"Idempotency-Key": "k-1"})
    again = await scene.app("POST", "/v1/sessions", body, headers={"Idempotency-Key": "k-1"})
    other = await scene.app("POST", "/v1/sessions", body, headers={"Idempotency-Key": "k-2"})
    assert (first.status, again.status, other.status) == (201, 200, 201)
    assert first.body["name"] == again.body["name"] != other.body["name"]
    changed = await scene.app(
        "POST", "/v1/sessions", {**body, "failover": "Stay"}, headers={"Idempotency-Key": "k-1"}
    )
    assert changed.status == 409
    stranger = await scene.caller(Role.APP, "other")
    theirs = await stranger("POST", "/v1/sessions", body, headers={"Idempotency-Key": "k-1"})
    assert theirs.status == 201
    assert theirs.body["name"] != first.body["name"]


async def test_a_template_made_a_moment_ago_is_there(scene: Scene) -> None:
    scene.rig.hub_proxies[0].mute_all()  # the server does not hear of it
    await scene.rig.add_template("fresh")
    answer = await scene.app("POST", "/v1/sessions", {"template": "fresh", "name": "room-1"})
    assert (answer.status, answer.body["template"]) == (201, "fresh")


async def test_what_belongs_to_others_is_not_there(scene: Scene) -> None:
    await made(scene.app)
    other = await scene.caller(Role.APP, "other")
    for method, path in (
        ("GET", "/v1/sessions/room-1"),
        ("DELETE", "/v1/sessions/room-1"),
        ("PUT", ALICE),
        ("POST", f"{ALICE}/token"),
    ):
        theirs, nobodys = await other(method, path), await other(method, path.replace("m-1", "m-9"))
        assert theirs.status == nobodys.status == 404
        assert theirs.body["detail"] == nobodys.body["detail"].replace("m-9", "m-1")
    assert (await other("GET", "/v1/sessions")).body["items"] == []
    taken = await other("POST", "/v1/sessions", {"template": "demo", "name": "room-1"})
    assert (taken.status, taken.body["detail"]) == (409, "the name room-1 is taken")


BAD_REQUESTS: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/v1/nothing", None, 404, ""),
    ("GET", "/v1/sessions/UPPER", None, 400, "session must have 1 to 63 lower-case letters"),
    ("GET", "/v1/sessions/x%0A", None, 400, "session"),
    ("GET", "/v1/sessions/..%2F..%2Fsecrets", None, 404, ""),
    ("POST", "/v1/locations", None, 405, ""),
    ("POST", "/v1/sessions", {}, 400, "template"),
    ("POST", "/v1/sessions", {"template": "none"}, 422, "no template 'none'"),
    ("POST", "/v1/sessions", {"template": "demo", "surprise": 1}, 400, "surprise"),
    ("POST", "/v1/sessions", {"template": "demo", "name": "-"}, 400, "name must have 1 to 63"),
    ("POST", "/v1/sessions", {"template": "demo", "locations": ["mars"]}, 422, "mars"),
    ("PUT", "/v1/sessions/room-1/clients/al%20ice", None, 400, "client must have 1 to 63"),
    ("PUT", ALICE, {"latencies": {"porto": -1}}, 400, "latencies"),
    ("PUT", ALICE, {"latencies": {"porto": "near"}}, 400, "latencies"),
    ("PUT", ALICE, {"leaseSeconds": 1e9}, 400, "leaseSeconds"),
    ("POST", "/v1/sessions", {"template": "=demo"}, 422, "cannot be the name of a template"),
    (
        "POST",
        "/v1/sessions",
        {"template": "demo,metadata.name=demo"},
        422,
        "cannot be the name of a template",
    ),
    ("POST", "/v1/sessions", {"template": "../demo"}, 422, "cannot be the name of a template"),
    ("PUT", ALICE, {"location": "mars"}, 422, "mars is not a known location"),
    ("PUT", ALICE, {"move": True}, 422, "a move needs a location"),
    ("PUT", ALICE, {"move": True, "location": "mars"}, 422, "mars is not a known location"),
    ("PUT", f"{ALICE}?wait=-1", None, 400, "wait"),
    ("PUT", f"{ALICE}?wait=soon", None, 400, "wait"),
    ("GET", "/v1/sessions?limit=0", None, 400, "limit"),
    ("POST", f"{ALICE}/heartbeat", None, 404, "alice is not in room-1"),
    ("POST", f"{ALICE}/disconnect", None, 404, "join first"),
    ("GET", ALICE, None, 404, "alice is not in room-1"),
]


async def test_bad_requests_get_one_sentence(scene: Scene) -> None:
    await made(scene.app)
    for method, path, body, status, said in BAD_REQUESTS:
        answer = await scene.app(method, path, body)
        assert answer.status == status, (method, path, body, answer.body)
        assert answer.headers["Content-Type"].startswith("application/problem+json")
        assert answer.body["status"] == status
        assert said in answer.body["detail"], (method, path, body)
        assert answer.body["requestId"] == answer.headers["X-Request-Id"]


async def test_broken_bodies_are_refused(scene: Scene) -> None:
    for raw in (b"{", b"[]", b"\xff\xfe", b'{"template": ' * 4500, b"null"):
        answer = await scene.app("POST", "/v1/sessions", raw=raw)
        assert answer.status == 400, raw[:20]
        assert answer.body["type"] == "/problems/bad-request"


async def test_a_body_that_is_too_large_is_not_read(scene: Scene) -> None:
    answer = await scene.app("POST", "/v1/sessions", raw=b" " * 100_000)
    assert (answer.status, answer.body["type"]) == (413, "/problems/too-large")


async def test_without_a_token_nothing_but_the_doors_are_open(scene: Scene) -> None:
    nobody = Caller(scene.app.http, scene.app.url)
    for path in ("/", "/page.js", "/page.css", "/healthz", "/readyz", "/v1/openapi.json"):
        assert (await nobody("GET", path)).status == 200
    answer = await nobody("GET", "/v1/sessions")
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    for path in ("/schema", "/schema/openapi.json", "/schema/swagger"):
        assert (await nobody("GET", path)).status in (403, 404)


async def test_a_request_id_runs_through(scene: Scene) -> None:
    kept = await scene.app("GET", "/v1/locations", headers={"X-Request-Id": "from-afar.7"})
    assert kept.headers["X-Request-Id"] == "from-afar.7"
    made_up = await scene.app("GET", "/v1/locations", headers={"X-Request-Id": "bad id <script>"})
    assert made_up.headers["X-Request-Id"] != "bad id <script>"


async def test_the_log_holds_no_secrets(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    await made(scene.app)
    issued = await scene.app("POST", f"{ALICE}/token")
    alice = Caller(scene.app.http, scene.app.url, issued.body["token"])
    await alice("PUT", f"{ALICE}?wait=10", {"latencies": {"porto": 4242}})
    await alice("GET", "/v1/sessions/room-1?secret=in-the-query")
    nobody = Caller(scene.app.http, scene.app.url, "ewt_abcdefghij_" + "s" * 43)
    await nobody("GET", "/v1/locations")
    log = "\n".join(f"{r.getMessage()} {r.__dict__}" for r in caplog.records)
    ours = [r for r in caplog.records if r.name == "edgewise.server.access"]
    assert any("/clients/{client}" in r.getMessage() for r in ours)
    own = scene.app.headers["Authorization"].removeprefix("Bearer ")
    for secret in (own, issued.body["token"], "s" * 43, "in-the-query"):
        assert secret not in log


async def test_a_revoked_token_stops_working(scene: Scene) -> None:
    reader = await scene.caller(Role.READER, "page")
    assert (await reader("GET", "/v1/sessions")).status == 200
    id = reader.headers["Authorization"].split("_")[1]
    await scene.rig.direct.delete(Secret, secret_name(id), scene.rig.namespace)

    async def refused() -> bool:
        return (await reader("GET", "/v1/sessions")).status == 401

    await eventually(refused)


async def test_too_many_requests_are_told_when_to_come_back(rig: HubRig) -> None:
    replica = await rig.add_replica()
    url = await rig.add_server(replica, rates=Rates(application=1, stranger=1))
    token = await rig.add_token(Role.APP, "arena")
    await eventually(lambda: replica.credentials.api_token(token_id(token)) is not None)
    async with aiohttp.ClientSession() as http:
        for caller, expected in ((Caller(http, url, token), 200), (Caller(http, url, "x"), 401)):
            statuses = []
            for _ in range(30):
                answer = await caller("GET", "/v1/locations")
                statuses.append(answer.status)
            assert set(statuses) == {expected, 429}
            assert int(answer.headers["Retry-After"]) >= 1
            assert answer.body["type"] == "/problems/too-many-requests"


async def test_cordoning_is_for_admins(scene: Scene) -> None:
    admin = await scene.caller(Role.ADMIN, "ops")
    assert (await scene.app("PATCH", "/v1/locations/porto", {"cordoned": True})).status == 403
    changed = await admin("PATCH", "/v1/locations/porto", {"cordoned": True})
    assert (changed.status, changed.body["state"]) == (200, "cordoned")
    assert (await admin("PATCH", "/v1/locations/mars", {"cordoned": True})).status == 404
    await made(scene.app)
    await eventually(lambda: scene.replica.hub_view.location("porto").state == "cordoned")  # type: ignore[union-attr]
    joined = await scene.app("PUT", ALICE, {"latencies": {"porto": 1, "paris": 99}})
    assert joined.body["location"] == "paris"


async def test_waiting_ends_when_the_time_is_up(scene: Scene) -> None:
    await made(scene.app)
    for member in scene.rig.members.values():
        member.stand_in.holding_back = True
    joined = await scene.app("PUT", f"{ALICE}?wait=0.3")
    assert (joined.status, joined.body["state"]) == (201, "joining")
    waiting = asyncio.create_task(scene.app("GET", f"{ALICE}?wait=30"))
    await asyncio.sleep(0)
    for member in scene.rig.members.values():
        member.stand_in.holding_back = False
        await scene.rig.direct.request(
            "PATCH",
            f"/apis/sessions.edgewise.dev/v1alpha1/namespaces/{member.namespace}/sessions/room-1",
            body=b'{"metadata":{"labels":{"wake":"up"}}}',
            content_type="application/merge-patch+json",
        )
    async with asyncio.timeout(20):
        assert (await waiting).body["state"] == "ready"


async def test_a_client_that_its_cluster_refuses_is_told_why(scene: Scene) -> None:
    await made(scene.app)
    for member in scene.rig.members.values():
        member.stand_in.refusing = {"alice"}
    answer = await scene.app("PUT", f"{ALICE}?wait=30")
    assert (answer.status, answer.body["type"]) == (409, "/problems/conflict")
    assert answer.body["detail"].endswith("refuses alice: there is no room")
    assert await scene.rig.bindings() == {}


async def test_who_only_looks_is_not_shown_the_way_in(scene: Scene) -> None:
    """An address leads into somebody's pod, whoever has it."""
    key = b"k" * 32
    for member in scene.rig.members.values():
        member.stand_in.seat_key = key
        secret = Secret.named("edgewise-seat-key", member.namespace, data={"key": key})
        await scene.rig.direct.create(secret)
        connected = scene.replica.members.get(member.name)
        assert connected is not None
        connected.seat_key = key  # fetched once a minute
    await made(scene.app)
    joined = await scene.app("PUT", f"{ALICE}?wait=10")
    token = seat_token(key, "room-1-alice")
    assert joined.body["tokens"] == {"demo": token}
    reader = await scene.caller(Role.READER, "page")
    seen = [
        (await reader("GET", "/v1/sessions/room-1")).body["clientsById"]["alice"],
        (await reader("GET", ALICE)).body,
    ]
    for path in (f"{ALICE}/events", "/v1/sessions/room-1/events"):
        async for _, data, _ in reader.events(path):
            seen.append(data if "client" in data else data["clientsById"]["alice"])
            break
    assert len(seen) == 4
    for view in seen:
        assert (view["client"], view["ready"]) == ("alice", True)
        assert view["endpoints"] == {}
        assert view["tokens"] == {}


async def test_turn_credentials_are_for_the_client_and_for_nobody_who_looks(scene: Scene) -> None:
    shared = b"a secret that coturn in porto knows"
    secret = Secret.named("turn-porto", scene.rig.namespace, data={"secret": shared})
    secret.metadata.labels = {SECRET_LABEL: "turn"}
    await scene.rig.direct.create(secret)
    turn = {"urls": ["turn:192.0.2.7:3478"], "secret": "turn-porto"}
    body = {"spec": {"turn": turn}}
    await scene.rig.direct.patch(Location, "porto", scene.rig.namespace, body=body)
    hub = scene.replica.hub

    def known() -> bool:
        location = hub.location("porto")
        return location is not None and location.spec.turn.urls != [] and len(hub.secrets) > 3

    await eventually(known)
    await made(scene.app)
    joined = await scene.app("PUT", f"{ALICE}?wait=10", {"location": "porto"})
    (given,) = joined.body["iceServers"]
    assert given["urls"] == ["turn:192.0.2.7:3478"]
    mac = hmac.new(shared, given["username"].encode(), hashlib.sha1)
    assert base64.b64decode(given["credential"]) == mac.digest()
    left = int(given["username"].split(":")[0]) - time.time()
    assert 1800 <= left <= 3600

    token = (await scene.app("POST", f"{ALICE}/token")).body["token"]
    alice = Caller(scene.app.http, scene.app.url, token)
    for caller in (scene.app, alice):
        assert (await caller("GET", ALICE)).body["iceServers"] == [given]
        beat = await caller("POST", f"{ALICE}/heartbeat")
        assert beat.body["client"]["iceServers"] == [given]
    async for _, data, _ in alice.events(f"{ALICE}/events"):
        assert data["iceServers"] == [given]
        break

    reader = await scene.caller(Role.READER, "page")
    assert (await reader("GET", ALICE)).body["iceServers"] == []
    bob = "/v1/sessions/room-1/clients/bob"
    assert (await alice("GET", bob)).status == 403
    other = await scene.app("PUT", f"{bob}?wait=10", {"location": "paris"})
    assert other.body["iceServers"] == []  # there is no TURN server
    # Pages of whole sessions are kept, and credentials end.
    page = (await scene.app("GET", "/v1/sessions/room-1")).body["clientsById"]["alice"]
    assert (page["endpoints"] != {}, page["iceServers"]) == (True, [])
    async for _, data, _ in scene.app.events("/v1/sessions/room-1/events"):
        assert data["clientsById"]["alice"]["iceServers"] == []
        break


async def test_what_is_not_there_is_not_asked_for_again_and_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(scene.app)
    client = scene.replica.hub.client
    asked: list[str] = []
    request = client.request

    async def counting(method: str, path: str, **options: Any) -> bytes:
        if "/globalsessions/" in path or "/clientbindings/" in path or "fieldSelector" in options:
            asked.append(path)
        return await request(method, path, **options)

    monkeypatch.setattr(client, "request", counting)
    for path in ("/v1/sessions/nowhere", "/v1/sessions/room-1/clients/nobody"):
        asked.clear()
        began = time.monotonic()
        answers = [await scene.app("GET", path) for _ in range(100)]
        lasted = time.monotonic() - began
        assert {answer.status for answer in answers} == {404}
        assert len(asked) <= 1 + lasted / MISS_SECONDS
    # What is made after that is there at once.
    await made(scene.app, "nowhere")
    assert (await scene.app("GET", "/v1/sessions/nowhere")).status == 200
    joined = await scene.app("PUT", "/v1/sessions/room-1/clients/nobody")
    assert joined.status == 201
    assert (await scene.app("GET", "/v1/sessions/room-1/clients/nobody")).status == 200
