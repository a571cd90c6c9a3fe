"""Sessions on a real API server, with an operator that is killed at any of its writes.

`make test` plays one cut point of each scenario, `make chaos` every one of them, before
and after the write.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import AsyncIterator

import pytest

from edgewise.api.exposure import PortClaim
from edgewise.api.installation import install
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.kinds.core import Namespace
from tests.chaos.session_world import RealWorld
from tests.integration.conftest import ApiServer
from tests.unit.sessions.scenarios import SCENARIOS, play

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
CUTS = 2  # of each scenario, in `make test`

pytestmark = pytest.mark.chaos


@pytest.fixture
async def client(api_server: ApiServer) -> AsyncIterator[Client]:
    async with Client(load_access(api_server.kubeconfig)) as connected:
        await install(connected, (Session, SessionTemplate, PortClaim))
        yield connected


async def world(client: Client) -> RealWorld:
    namespace = f"chaos-{secrets.token_hex(4)}"
    await client.create(Namespace.named(namespace))
    return RealWorld(client, namespace)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCENARIOS)
async def test_all_is_well_when_the_operator_is_killed_at_any_write_of(
    name: str, client: Client
) -> None:
    scenario = SCENARIOS[name]
    first = await world(client)
    writes = (await play(scenario, world=first)).operator.count
    await first.clear()
    cuts = [(number, after) for number in range(1, writes + 1) for after in (False, True)]
    if not LONG:
        cuts = random.Random(name).sample(cuts, CUTS)
    for cut_at, after in cuts:
        each = await world(client)
        try:
            crew = await play(scenario, cut_at, after=after, world=each)
        except AssertionError as error:
            moment = "after" if after else "before"
            raise AssertionError(f"killed {moment} write {cut_at} of {writes}: {error}") from error
        # Writes come in another order now and then: the last of them may never be reached.
        assert crew.cut or cut_at > writes - 3
        await each.clear()
