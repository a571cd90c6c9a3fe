"""A hub and members that are namespaces on the one API server of the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from edgewise.api.installation import install
from edgewise.kube.client import Client
from edgewise.server.identity.principal import Role
from edgewise.testing.hub_rig import KINDS, HubRig, hub_rig
from tests.integration.server.http_client import Caller
from tests.integration.server.scene import Scene


@pytest.fixture
async def rig(client: Client) -> AsyncIterator[HubRig]:
    """Two members, `porto` and `paris`, a template, and no replica yet."""
    await install(client, KINDS)
    async with hub_rig(client) as rig:
        await rig.add_template()
        await rig.add_member("porto")
        await rig.add_member("paris")
        yield rig


@pytest.fixture
async def scene(rig: HubRig) -> AsyncIterator[Scene]:
    replica = await rig.add_replica()
    url = await rig.add_server(replica)
    async with aiohttp.ClientSession() as http:
        scene = Scene(rig, replica, Caller(http, url))
        scene.app = await scene.caller(Role.APP, "arena")
        yield scene
