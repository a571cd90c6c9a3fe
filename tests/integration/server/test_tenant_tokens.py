"""API tokens of a tenant's applications: what is others' is not there, and they end with it."""

from __future__ import annotations

import secrets
from typing import Any

import aiohttp
import pytest

from edgewise.api.tenancy import DISABLED, TENANT, TENANT_UID
from edgewise.kube.kinds.core import Namespace
from edgewise.server.identity.principal import Role
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from tests.integration.server.http_client import Caller


async def tenant(rig: HubRig, uid: str) -> str:
    """Its namespace, as the operator of tenancy labels it."""
    name = f"tenant-{secrets.token_hex(3)}"
    made = Namespace.named(name)
    made.metadata.labels = {TENANT: name, TENANT_UID: uid}
    await rig.direct.create(made)
    return name


async def disable(rig: HubRig, name: str, value: str | None) -> None:
    await rig.direct.patch(Namespace, name, body={"metadata": {"labels": {DISABLED: value}}})


async def test_tokens_of_tenants_see_their_own_and_end_with_the_tenant(rig: HubRig) -> None:
    replica = await rig.add_replica()
    url = await rig.add_server(replica)
    acme, other = await tenant(rig, "u1"), await tenant(rig, "u2")

    async with aiohttp.ClientSession() as http:

        async def caller(application: str, **of: Any) -> Caller:
            made = Caller(http, url, await rig.add_token(Role.APP, application, **of))

            async def known() -> None:
                assert (await made("GET", "/v1/sessions")).status == 200

            await eventually(known, within=30)
            return made

        ours = await caller("arena", tenant=acme, tenant_uid="u1")
        theirs = await caller("arena", tenant=other, tenant_uid="u2")
        nobodys = await caller("arena")
        made = await ours("POST", "/v1/sessions", {"template": "demo", "name": "room-1"})
        assert (made.status, made.body["owner"]) == (201, f"tenant:{acme}/arena")
        assert (await ours("GET", "/v1/sessions/room-1")).status == 200
        for stranger in (theirs, nobodys):
            assert (await stranger("GET", "/v1/sessions/room-1")).status == 404
            assert (await stranger("DELETE", "/v1/sessions/room-1")).status == 404
            listed = await stranger("GET", "/v1/sessions")
            assert "room-1" not in str(listed.body)

        # A tenant of the same name that was made later is another one.
        late = Caller(
            http, url, await rig.add_token(Role.APP, "arena", tenant=acme, tenant_uid="u0")
        )

        async def answers(who: Caller, status: int) -> None:
            said = await who("GET", "/v1/sessions")
            assert said.status == status, said.body

        await eventually(lambda: answers(late, 401), within=30)
        await disable(rig, acme, "true")
        await eventually(lambda: answers(ours, 401), within=30)
        assert "disabled" in (await ours("GET", "/v1/sessions")).body["detail"]
        await answers(theirs, 200)
        await answers(nobodys, 200)
        await disable(rig, acme, None)
        await eventually(lambda: answers(ours, 200), within=30)
        assert (await ours("GET", "/v1/sessions/room-1")).status == 200


@pytest.mark.parametrize("role", [Role.ADMIN, Role.READER])
async def test_who_sees_everything_belongs_to_no_tenant(rig: HubRig, role: Role) -> None:
    with pytest.raises(Exception, match="a token of a tenant is for app"):
        await rig.add_token(role, "arena", tenant="acme", tenant_uid="u1")
