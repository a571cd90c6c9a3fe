"""A domain that the server has never heard of is handed to it, and nothing of it is edited."""

from __future__ import annotations

import aiohttp

from edgewise.api.clusters import Cluster
from edgewise.api.installation import install
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import ConfigMap
from edgewise.server.halves import HALVES
from edgewise.server.http.app import create_app
from edgewise.server.http.serving import Listen, serving
from edgewise.server.hub_half import Halves
from edgewise.server.identity.api_tokens import make_token, secret_of, token_id
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.identity.principal import Role
from edgewise.server.replica import Replica, Settings
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import KINDS
from tests.integration.server.http_client import Caller
from tests.integration.server.toy_half import LABEL, TOY


async def bell_in(client: Client, namespace: str) -> None:
    bell = ConfigMap.named("great", namespace, data={"tone": "c"})
    bell.metadata.labels = {LABEL: "true"}
    await client.create(bell)


async def token_in(client: Client, replica: Replica, role: Role) -> str:
    token, kept = make_token(role, "tests")
    await client.create(secret_of(kept, replica.settings.namespace))
    await eventually(lambda: replica.credentials.api_token(token_id(token)) is not None)
    return token


async def check_bells(client: Client, namespace: str, halves: Halves) -> set[str]:
    """Everything that the toy does; answers the paths that the server describes."""
    replica = Replica(client, Settings(namespace=namespace), halves)
    bells = replica.of(TOY)
    async with replica.running():
        app = create_app(replica, Authenticator(replica.credentials))
        async with (
            serving(app, Listen(port=0), at_end=replica.close) as port,
            aiohttp.ClientSession() as http,
        ):
            url = f"http://127.0.0.1:{port}"
            await bell_in(client, namespace)
            await eventually(lambda: any("rung" in bell.data for bell in bells.bells), within=15)
            # Whose duty fails keeps the others from nothing, and does not cost the lead.
            await eventually(lambda: bells.failures > 1, within=15)
            assert replica.leading
            reader = Caller(http, url, await token_in(client, replica, Role.READER))
            heard = await reader("GET", "/v1/bells/great")
            assert (heard.status, heard.body) == (200, {"tone": "c", "rung": "by the leader"})
            muffled = await reader("GET", "/v1/bells/small")
            assert (muffled.status, muffled.body["type"]) == (409, "/problems/muffled")
            assert muffled.body["detail"] == "small is under a cloth"
            app_ = Caller(http, url, await token_in(client, replica, Role.APP))
            refused = await app_("GET", "/v1/bells/great")
            assert (refused.status, refused.body["detail"]) == (403, "an app may not hear a bell")
            assert (await Caller(http, url)("GET", "/v1/bells/great")).status == 401
            described = (await reader("GET", "/v1/openapi.json")).body["paths"]
            assert (await reader("GET", "/readyz")).status == 200
            assert not bells.closed
        assert (bells.prepared, bells.tasks_run, bells.closed) == (True, 1, True)
    return set(described)


async def test_a_toy_is_served_beside_sessions(client: Client, namespace: str) -> None:
    await install(client, KINDS)
    paths = await check_bells(client, namespace, (*HALVES, TOY))
    assert {"/v1/bells/{bell}", "/v1/sessions"} <= paths


async def test_a_toy_is_served_alone(client: Client, namespace: str) -> None:
    """The server itself needs no domain, and no kind of one."""
    await install(client, (Cluster,))
    paths = await check_bells(client, namespace, (TOY,))
    assert paths == {"/v1/bells/{bell}"}
