"""One cluster of real and simulated nodes, which the tests here share."""

from collections.abc import AsyncIterator, Iterator

import pytest

from edgewise.kube.client import Client
from edgewise.local.clusters import Cluster
from edgewise.testing.clusters import temporary_cluster


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    with temporary_cluster("pods", nodes=2, simulated_nodes=2, region="eu-west") as cluster:
        yield cluster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with cluster.client() as client:
        yield client
