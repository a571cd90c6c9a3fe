"""A stage of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from edgewise.api.exposure import PortClaim
from edgewise.api.installation import install
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.client import Client
from edgewise.testing.domain_stage import Kubelets
from tests.integration.sessions.stage import Stage


@pytest.fixture
async def stage(client: Client, namespace: str) -> AsyncIterator[Stage]:
    await install(client, (Session, SessionTemplate, PortClaim))
    async with Kubelets(client, namespace).working() as nodes:
        made = Stage(client, namespace, nodes)
        yield made
        await made.clear()
