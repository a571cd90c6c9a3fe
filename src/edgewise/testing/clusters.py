"""Local clusters for tests: a name of their own, and gone afterwards whatever happened.

@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with temporary_cluster(simulated_nodes=10) as cluster:
        yield cluster
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator

from edgewise.local.clusters import Cluster, ClusterSpec, down, up


def unique_name(prefix: str = "test") -> str:
    return f"{prefix}-{secrets.token_hex(4)}"


@contextlib.contextmanager
def temporary_cluster(
    prefix: str = "test",
    *,
    nodes: int = 0,
    simulated_nodes: int = 0,
    region: str = "local",
    controllers: bool = True,
) -> Iterator[Cluster]:
    """A cluster for as long as the block runs.

    `controllers=False` is an API server with etcd alone: it starts fastest, and
    nothing there changes what a test did not change.
    """
    spec = ClusterSpec(
        name=unique_name(prefix),
        nodes=nodes,
        simulated_nodes=simulated_nodes,
        region=region,
        controllers=controllers,
    )
    try:
        yield up(spec)
    finally:
        down(spec.name)
