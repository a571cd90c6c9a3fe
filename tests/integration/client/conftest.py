"""A hub with its API, as the SDK meets it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from edgewise.agents.ping.agent import Address, ping_agent
from edgewise.agents.ping.callers import Limits
from edgewise.api.clusters import Cluster
from edgewise.api.installation import install
from edgewise.client import Edgewise
from edgewise.kube.client import Client
from edgewise.server.identity.api_tokens import token_id
from edgewise.server.identity.principal import Role
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import KINDS, HubRig, hub_rig
from edgewise.testing.sessions_replica import SessionsReplica

HERE = Address("127.0.0.1", 0)


class Scene:
    def __init__(self, rig: HubRig, replica: SessionsReplica, url: str, token: str) -> None:
        self.rig = rig
        self.replica = replica
        self.url = url
        self.token = token

    def edgewise(self, **options: float) -> Edgewise:
        return Edgewise(self.url, self.token, **options)


@pytest.fixture
async def scene(client: Client) -> AsyncIterator[Scene]:
    """Two locations with ping agents, one replica with its API, a session `room-1`."""
    await install(client, KINDS)
    async with contextlib.AsyncExitStack() as stack:
        rig = await stack.enter_async_context(hub_rig(client))
        await rig.add_template()
        for name in ("porto", "paris"):
            at = await stack.enter_async_context(
                ping_agent(HERE, HERE, Limits(per_caller=1000, burst=1000))
            )
            ping = {"http": f"http://{at.http}/ping", "udp": str(at.udp)}
            await rig.add_member(name)
            body = {"spec": {"ping": ping}}
            await client.patch(Cluster, name, rig.namespace, body=body)
        replica = await rig.add_replica()
        url = await rig.add_server(replica)
        token = await rig.add_token(Role.APP, "arena")
        await eventually(lambda: replica.credentials.api_token(token_id(token)) is not None)
        async with Edgewise(url, token) as edgewise:
            await edgewise.create_session("demo", "room-1")
        yield Scene(rig, replica, url, token)
