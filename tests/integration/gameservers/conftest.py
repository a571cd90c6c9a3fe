"""A stage of its own for each test."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

from edgewise.api.installation import install
from edgewise.gameservers.domain import GAMESERVERS
from edgewise.gameservers.names import OPERATOR_USER
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.kinds.core import Node
from edgewise.testing.domain_stage import Kubelets
from tests.integration.conftest import ApiServer
from tests.integration.gameservers.game_stage import GameStage
from tests.integration.gameservers.stage import Stage, make_node

AS_OPERATOR = (("Impersonate-User", OPERATOR_USER), ("Impersonate-Group", "system:masters"))


@pytest.fixture
async def operator_client(api_server: ApiServer) -> AsyncIterator[Client]:
    access = load_access(api_server.kubeconfig)
    access.impersonation = AS_OPERATOR
    async with Client(access) as connected:
        yield connected


@pytest.fixture
async def nodes(client: Client) -> AsyncIterator[list[str]]:
    made = [f"node-{secrets.token_hex(3)}" for _ in range(2)]
    for name in made:
        await make_node(client, name)
    yield made
    for name in made:
        await client.delete(Node, name)


@pytest.fixture
async def protected(client: Client) -> None:
    await install(client, GAMESERVERS.kinds)
    for each in GAMESERVERS.cluster_objects:
        await client.apply(each)


@pytest.fixture
async def stage(
    client: Client,
    operator_client: Client,
    namespace: str,
    nodes: list[str],
    protected: None,
) -> AsyncIterator[Stage]:
    async with Kubelets(operator_client, namespace, nodes).working() as kubelets:
        made = Stage(client, operator_client, namespace, kubelets)
        yield made
        await made.clear()


@pytest.fixture
async def games(
    client: Client,
    operator_client: Client,
    namespace: str,
    nodes: list[str],
    protected: None,
) -> AsyncIterator[GameStage]:
    async with Kubelets(operator_client, namespace, nodes).working() as kubelets:
        made = GameStage(client, operator_client, namespace, kubelets)
        yield made
        await made.clear()
