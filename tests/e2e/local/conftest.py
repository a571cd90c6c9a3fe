"""The tests here share the cluster of real and simulated nodes."""

from collections.abc import AsyncIterator

import pytest

from edgewise.kube.client import Client
from edgewise.local.clusters import LocalCluster

SHARES = "nodes"


@pytest.fixture(scope="session")
def cluster(nodes: LocalCluster) -> LocalCluster:
    return nodes


@pytest.fixture
async def client(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with cluster.client() as client:
        yield client
