"""A storm: two operators as real processes that know nothing of each other, killed again and
again, while people come and go, pods die, and API server and etcd restart.

Afterwards everything must be as it should be: every connected client seated exactly once, no
pod, Lease or port left over, no deadline lost.

    EDGEWISE_CHAOS_SEED=<seed> pytest tests/chaos/test_sessions_storm.py

plays one storm again, as far as that is possible with real processes.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import time
from pathlib import Path

import pytest

from edgewise.api.exposure import PortClaim
from edgewise.api.installation import install
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import KubeError
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.sessions.domain import SESSIONS
from edgewise.testing.domain_stage import Kubelets
from edgewise.testing.eventually import eventually
from tests.chaos.harness import operators, rage
from tests.chaos.session_world import RealWorld
from tests.integration.conftest import ApiServer
from tests.integration.sessions.stage import Stage, pod_template

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
ONLY = os.environ.get("EDGEWISE_CHAOS_SEED", "")
SEEDS = [int(ONLY)] if ONLY else list(range(12 if LONG else 1))
SECONDS = 40.0 if LONG else 12.0
PATIENCE = 60.0

HTTP = {"name": "http", "port": 8080}
UDP = {"name": "game", "port": 7777, "protocol": "UDP"}

pytestmark = pytest.mark.chaos


class People:
    """Come, go, lose their connection, and kill pods by mistake."""

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        self._stage = stage
        self._chance = chance

    async def act(self) -> None:
        chance = self._chance
        session = f"s{chance.randrange(4)}"
        with contextlib.suppress(KubeError):
            match chance.choices(("say", "kill", "delete"), (12, 3, 1))[0]:
                case "say":
                    await self._say(session)
                case "kill":
                    await self._kill()
                case "delete":
                    await self._stage.delete(Session, session)

    async def _say(self, session: str) -> None:
        state = self._chance.choices((True, False, None), (5, 2, 2))[0]
        client = f"c{self._chance.randrange(5)}"
        try:
            await self._stage.clients(session, **{client: state})
        except KubeError:
            template = {"name": f"room{int(session[1]) % 2}"}
            await self._stage.session(session, templateRef=template)

    async def _kill(self) -> None:
        pods = sorted(await self._stage.pods())
        if not pods:
            return
        pod = self._chance.choice(pods)
        if self._chance.random() < 0.3:
            await self._stage.nodes.set_pod(pod, ready=False, phase="Failed")
        else:
            grace = self._chance.choice((0, None))
            await self._stage.client.delete(Pod, pod, self._stage.namespace, grace_seconds=grace)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
async def test_everything_is_as_it_should_be_after_a_storm(
    seed: int, api_server: ApiServer, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    namespace = f"storm-{secrets.token_hex(4)}"
    async with Client(load_access(api_server.kubeconfig)) as client:
        await install(client, (Session, SessionTemplate, PortClaim))
        await client.create(Namespace.named(namespace))
        async with Kubelets(client, namespace).working() as nodes:
            stage = Stage(client, namespace, nodes)
            await stage.template(
                "room0",
                podTemplates=[pod_template(maxClients=2, ports=[HTTP, UDP], warmPods=1)],
                reuse="Template",
                timeoutSeconds=2,
                reutilizeTimeoutSeconds=2,
            )
            await stage.template(
                "room1",
                podTemplates=[
                    pod_template(ports=[HTTP, UDP]),
                    pod_template("chat", maxClients=0),
                ],
                timeoutSeconds=1,
                reutilizeTimeoutSeconds=3,
            )
            async with operators(api_server, SESSIONS, tmp_path) as crew:
                act = People(stage, chance).act
                await rage(act, crew, api_server, chance, seconds=SECONDS, restarts=LONG)
                await all_is_well(client, namespace)
                assert sum(each.kills for each in crew) >= 2
            await stage.clear()


async def all_is_well(client: Client, namespace: str) -> None:
    world = RealWorld(client, namespace)

    async def well() -> None:
        await world.look()
        # A deadline that is due this very moment has not been missed yet.
        world.now = time.time() - 2.0
        world.check()

    await eventually(well, within=PATIENCE, every=0.25, not_yet=(KubeError,))
