"""One cluster for all tests of tenancy that need Kubernetes' controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewise.local.clusters import LocalCluster
from edgewise.testing.clusters import temporary_cluster
from tests.e2e.tenancy.scene import populate, prepare, running_operator

SHARES = "tenants"


@pytest.fixture(scope="package")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder: Path = tmp_path_factory.mktemp("tenancy")
    with temporary_cluster("tenancy", simulated_nodes=1) as cluster:
        prepare(cluster)
        with running_operator(cluster, folder):
            asyncio.run(populate(cluster.kubeconfig))
            yield cluster
