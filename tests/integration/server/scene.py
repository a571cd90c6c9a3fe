"""One replica with its HTTP API, and an application in front of it."""

from __future__ import annotations

from typing import Any

from edgewise.server.identity.api_tokens import token_id
from edgewise.server.identity.principal import Role
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from edgewise.testing.sessions_replica import SessionsReplica
from tests.integration.server.http_client import Caller

ALICE = "/v1/sessions/room-1/clients/alice"


class Scene:
    def __init__(self, rig: HubRig, replica: SessionsReplica, app: Caller) -> None:
        self.rig = rig
        self.replica = replica
        self.app = app

    async def caller(self, role: Role, application: str, **options: Any) -> Caller:
        token = await self.rig.add_token(role, application, **options)
        await eventually(lambda: self.replica.credentials.api_token(token_id(token)) is not None)
        return Caller(self.app.http, self.app.url, token)

    async def client(self, path: str = ALICE) -> Caller:
        """A client with a token of its own, which its application asked for."""
        issued = await self.app("POST", f"{path}/token")
        assert issued.status == 201, issued.body
        return Caller(self.app.http, self.app.url, issued.body["token"])


async def made(app: Caller, name: str = "room-1", **fields: Any) -> None:
    answer = await app("POST", "/v1/sessions", {"template": "demo", "name": name, **fields})
    assert answer.status == 201, answer.body


async def made_again(app: Caller, name: str = "room-1") -> None:
    """A session of a name that is only just becoming free."""

    async def again() -> bool:
        answer = await app("POST", "/v1/sessions", {"template": "demo", "name": name})
        return answer.status == 201

    await eventually(again, within=15, every=0.1)
