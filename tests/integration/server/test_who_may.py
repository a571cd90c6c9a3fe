"""Who may do what, tried through the API: every route, as everybody, about everything.

The table in `permissions` says what is allowed. Here it is not read: the expectation is
written down once more, route by route, and every other combination must be refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from edgewise.api.global_sessions import ClientBinding
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.server.http.app import create_app
from edgewise.server.http.guard import Rates
from edgewise.server.identity.api_tokens import token_id
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.identity.principal import Role
from edgewise.server.replica import Replica, Settings
from edgewise.server.routes.sessions.half import SESSIONS
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from tests.integration.server.http_client import Caller

OURS, THEIRS, NOWHERE = "room-1", "room-2", "room-9"
C = "/v1/sessions/{session}/clients/{client}"

# Route: who is let in, and what they get for our session and alice.
EXPECTED: dict[tuple[str, str], dict[str, int]] = {
    ("GET", "/v1/templates"): {"admin": 200, "app": 200, "reader": 200},
    ("GET", "/v1/locations"): {"admin": 200, "app": 200, "reader": 200, "alice": 200},
    ("PATCH", "/v1/locations/{location}"): {"admin": 200},
    ("GET", "/v1/events"): {"admin": 200, "reader": 200},
    ("GET", "/v1/sessions"): {"admin": 200, "app": 200, "reader": 200},
    ("POST", "/v1/sessions"): {"admin": 201, "app": 201},
    ("GET", "/v1/sessions/{session}"): {"admin": 200, "app": 200, "reader": 200},
    ("GET", "/v1/sessions/{session}/events"): {"admin": 200, "app": 200, "reader": 200},
    ("DELETE", "/v1/sessions/{session}"): {"admin": 202, "app": 202},
    ("PUT", C): {"admin": 200, "app": 200, "alice": 200},
    ("GET", C): {"admin": 200, "app": 200, "reader": 200, "alice": 200},
    ("DELETE", C): {"admin": 204, "app": 204, "alice": 204},
    ("POST", f"{C}/heartbeat"): {"admin": 200, "app": 200, "alice": 200},
    ("POST", f"{C}/disconnect"): {"admin": 200, "app": 200, "alice": 200},
    ("POST", f"{C}/token"): {"admin": 201, "app": 201},
    ("GET", f"{C}/events"): {"admin": 200, "app": 200, "reader": 200, "alice": 200},
}  # fmt: skip
# Sent where a body is needed; a call that should be refused must be refused with a good body.
BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "/v1/locations/{location}"): {"cordoned": False},
    ("POST", "/v1/sessions"): {"template": "demo"},
}
# These would end the scene, so they are tried last, and only by those who may.
ENDING = (("DELETE", C), ("DELETE", "/v1/sessions/{session}"))


class Scene:
    def __init__(self, rig: HubRig, callers: dict[str, Caller]) -> None:
        self.rig = rig
        self.callers = callers


@pytest.fixture
async def scene(rig: HubRig) -> AsyncIterator[Scene]:
    replica = await rig.add_replica()
    url = await rig.add_server(replica, rates=Rates(client=1e6, application=1e6, stranger=1e6))
    async with aiohttp.ClientSession() as http:
        callers = {"nobody": Caller(http, url), "nonsense": Caller(http, url, "nonsense")}
        for name, role, application in (
            ("admin", Role.ADMIN, "ops"),
            ("app", Role.APP, "arena"),
            ("other app", Role.APP, "rival"),
            ("reader", Role.READER, "page"),
        ):
            token = await rig.add_token(role, application)
            await eventually(lambda t=token: replica.credentials.api_token(token_id(t)) is not None)
            callers[name] = Caller(http, url, token)
        expired = await rig.add_token(Role.ADMIN, "ops", expires=1.0)
        callers["expired admin"] = Caller(http, url, expired)
        for session, app in ((OURS, "app"), (THEIRS, "other app")):
            body = {"template": "demo", "name": session}
            assert (await callers[app]("POST", "/v1/sessions", body)).status == 201
            path = f"/v1/sessions/{session}/clients/alice"
            joined = await callers[app]("PUT", f"{path}?wait=10", {"leaseSeconds": 0})
            assert joined.body["ready"]
        for client, session, app in (
            ("alice", OURS, "app"),
            ("bob", OURS, "app"),
            ("their alice", THEIRS, "other app"),
        ):
            path = f"/v1/sessions/{session}/clients/{client.split()[-1]}/token"
            issued = await callers[app]("POST", path)
            callers[client] = Caller(http, url, issued.body["token"])
        yield Scene(rig, callers)


async def ask(caller: Caller, route: tuple[str, str], session: str, client: str) -> int:
    method, pattern = route
    path = pattern.format(session=session, client=client, location="porto")
    if pattern.endswith("events"):
        # A stream is open when its head has come; nobody waits for its end.
        async with caller.http.get(caller.url + path, headers=caller.headers) as answer:
            return answer.status
    return (await caller(method, path, BODIES.get(route))).status


async def test_every_route_is_in_the_expectation() -> None:
    """A new route has to be written down here before it can be merged."""
    async with Client(Access(server="http://unused.invalid")) as client:
        replica = Replica(client, Settings(), (SESSIONS,))
        app = create_app(replica, Authenticator(replica.credentials)).app
    routes = {
        (method, route.path_format)
        for route in app.routes
        for method, (handler, _) in getattr(route, "route_handler_map", {}).items()
        if method not in ("OPTIONS", "HEAD")
        and not handler.opt.get("open")
        and not route.path.startswith("/schema")
    }
    assert routes == set(EXPECTED)


async def test_nobody_gets_through_where_they_should_not(scene: Scene) -> None:
    before = await _everything(scene.rig)
    through: list[tuple[str, ...]] = []
    tried = 0
    for route, allowed in EXPECTED.items():
        for name, caller in scene.callers.items():
            for session in (OURS, THEIRS, NOWHERE):
                for client in ("alice", "bob"):
                    if _expected(route, allowed, name, session, client):
                        continue
                    tried += 1
                    status = await ask(caller, route, session, client)
                    if status not in (401, 403, 404):
                        through.append((*route, name, session, client, str(status)))
    assert through == []
    assert tried > 400
    assert await _everything(scene.rig) == before  # and nothing was changed by trying


def _expected(
    route: tuple[str, str], allowed: dict[str, int], name: str, session: str, client: str
) -> bool:
    """Whether this caller may do this (or may at least learn that it is not there)."""
    pattern = route[1]
    like = {"other app": "app", "their alice": "alice", "bob": "alice"}.get(name, name)
    if like not in allowed:
        return False
    if "{session}" not in pattern or name in ("admin", "reader"):
        return True
    if session != (THEIRS if name in ("other app", "their alice") else OURS):
        return False
    itself = client == name.rsplit(maxsplit=1)[-1]
    return "{client}" not in pattern or like == "app" or itself


async def _everything(rig: HubRig) -> list[str]:
    listing = await rig.direct.list(ClientBinding, rig.namespace)
    seats = [await rig.seats(session) for session in (OURS, THEIRS)]
    return [*sorted(each.metadata.resource_version for each in listing.items), repr(seats)]


async def test_those_who_may_do(scene: Scene) -> None:
    wrong = []
    for route, allowed in EXPECTED.items():
        if route in ENDING:
            continue
        for name, status in allowed.items():
            found = await ask(scene.callers[name], route, OURS, "alice")
            if found != status:
                wrong.append((*route, name, status, found))
    assert wrong == []
    leave, end = ENDING
    # Whom the others take out has a token that does not hold any more.
    for name in ("alice", "app", "admin"):
        assert await ask(scene.callers[name], leave, OURS, "alice") == 204
    assert await ask(scene.callers["app"], end, OURS, "") == 202
    assert await ask(scene.callers["admin"], end, THEIRS, "") == 202
