"""One cluster with a real control plane and six simulated nodes, for all tests of placement."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from edgewise.domain import install_domains
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.admission import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from edgewise.kube.kinds.core import Namespace
from edgewise.local.clusters import LocalCluster
from edgewise.operator import WEBHOOKS
from edgewise.placement.domain import PLACEMENT
from edgewise.testing.clusters import temporary_cluster
from tests.e2e.placement.stage import Stage

SHARES = "placement"


@pytest.fixture(scope="package")
def placement_cluster() -> Iterator[LocalCluster]:
    with temporary_cluster("place", simulated_nodes=6) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def stage(placement_cluster: LocalCluster) -> AsyncIterator[Stage]:
    async with placement_cluster.client() as client:
        await install_domains(client, (PLACEMENT,), PLACEMENT.kinds)
        namespace = f"place-{secrets.token_hex(3)}"
        await client.create(Namespace.named(namespace))
        for kind in (ValidatingWebhookConfiguration, MutatingWebhookConfiguration):
            with contextlib.suppress(NotFound):  # of the test before this one
                await client.delete(kind, WEBHOOKS)
        made = Stage(placement_cluster, client, namespace)
        await made.uncordon()
        try:
            yield made
        finally:
            await client.delete(Namespace, namespace)


@pytest_asyncio.fixture
async def real(nodes: LocalCluster) -> AsyncIterator[Stage]:
    """Real nodes, which other domains use, too; simulated ones come after them."""
    async with nodes.client() as client:
        await install_domains(client, (PLACEMENT,), PLACEMENT.kinds)
        # An operator of the tests before has gone, and nothing answers for its webhooks.
        for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration):
            with contextlib.suppress(NotFound):
                await client.delete(kind, WEBHOOKS)
        namespace = f"place-{secrets.token_hex(3)}"
        await client.create(Namespace.named(namespace))
        made = Stage(nodes, client, namespace)
        made.nodes = [*nodes.spec.node_names, *nodes.spec.simulated_names]
        try:
            yield made
        finally:
            await made.uncordon()
            await client.delete(Namespace, namespace)
