"""A cluster with Kubernetes' controllers and without an operator: each test runs its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from edgewise.domain import install_domains
from edgewise.kube.client import Client
from edgewise.local.clusters import LocalCluster
from edgewise.tenancy.domain import TENANCY
from edgewise.testing.clusters import temporary_cluster

SHARES = "tenants without an operator"


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    with temporary_cluster("tenancy-chaos") as made:

        async def prepare() -> None:
            async with made.client() as client:
                await install_domains(client, [TENANCY], TENANCY.kinds)

        asyncio.run(prepare())
        yield made


@pytest.fixture
async def admin(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with cluster.client() as client:
        yield client
