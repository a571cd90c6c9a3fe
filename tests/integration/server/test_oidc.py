"""Tokens of an OIDC issuer, through the API, with keys fetched over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import jwt
import pytest
from aiohttp import web

from edgewise.server.http.app import create_app
from edgewise.server.http.serving import Listen, serving
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.identity.issuer_keys import IssuerError, IssuerKeys, fetch_over_http
from edgewise.server.identity.oidc import Oidc, OidcSettings
from edgewise.server.identity.principal import Role
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from tests.integration.server.http_client import Caller
from tests.unit.server.identity.tokens import private_key, public_jwk

AUDIENCE = "https://edge.example.org"


class Issuer:
    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"one": private_key("ES256")}
        self.url = ""

    async def configuration(self, _: web.Request) -> web.Response:
        return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})

    async def listed(self, _: web.Request) -> web.Response:
        return web.json_response({"keys": [public_jwk(k, id) for id, k in self.keys.items()]})

    def token(self, key: str = "one", **claims: Any) -> str:
        content = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "arena",
            "exp": int(time.time()) + 60,
            "edgewise_role": "app",
            **claims,
        }
        return jwt.encode(content, self.keys[key], algorithm="ES256", headers={"kid": key})


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()

    async def elsewhere(_: web.Request) -> web.Response:
        raise web.HTTPFound(f"{issuer.url}/keys")

    async def endless(_: web.Request) -> web.Response:
        return web.Response(body=b" " * 2_000_000)

    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", issuer.configuration)
    app.router.add_get("/keys", issuer.listed)
    app.router.add_get("/elsewhere", elsewhere)
    app.router.add_get("/endless", endless)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield issuer
    await runner.cleanup()


async def known(caller: Caller) -> bool:
    return (await caller("GET", "/v1/sessions")).status == 200


async def test_an_application_comes_with_its_issuers_token(rig: HubRig, issuer: Issuer) -> None:
    replica = await rig.add_replica()
    settings = OidcSettings(issuer=issuer.url, audience=AUDIENCE)
    oidc = Oidc(settings, IssuerKeys(issuer.url, fetch_over_http))
    app = create_app(replica, Authenticator(replica.credentials, oidc))
    async with (
        serving(app, Listen(port=0), at_end=replica.close) as port,
        aiohttp.ClientSession() as http,
    ):
        url = f"http://127.0.0.1:{port}"
        ours = Caller(http, url, issuer.token())
        made = await ours("POST", "/v1/sessions", {"template": "demo", "name": "room-1"})
        assert (made.status, made.body["owner"]) == (201, "oidc:arena")
        namesake = Caller(http, url, await rig.add_token(Role.APP, "arena"))
        await eventually(lambda: known(namesake))
        assert (await namesake("GET", "/v1/sessions/room-1")).status == 404
        again = await namesake("POST", "/v1/sessions", {"template": "demo", "name": "room-1"})
        assert (again.status, again.body["detail"]) == (409, "the name room-1 is taken")
        reader = Caller(http, url, issuer.token(edgewise_role=["reader"], sub="eve"))
        assert (await reader("GET", "/v1/sessions/room-1")).status == 200
        assert (await reader("DELETE", "/v1/sessions/room-1")).status == 403
        other = Caller(http, url, issuer.token(sub="other"))
        assert (await other("GET", "/v1/sessions/room-1")).status == 404
        expired = Caller(http, url, issuer.token(exp=int(time.time()) - 60))
        answer = await expired("GET", "/v1/sessions")
        assert (answer.status, answer.body["detail"]) == (401, "the token has expired")
        stranger = Caller(http, url, issuer.token(aud="somebody else"))
        assert (await stranger("GET", "/v1/sessions")).status == 401


async def test_keys_are_fetched_within_limits(issuer: Issuer) -> None:
    assert json.loads(await fetch_over_http(f"{issuer.url}/keys"))["keys"]
    for path, said in (("/elsewhere", "HTTP 302"), ("/endless", "more than"), ("/no", "HTTP 404")):
        with pytest.raises(IssuerError, match=said):
            await fetch_over_http(issuer.url + path)
