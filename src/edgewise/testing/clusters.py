"""Local clusters for tests: a name of their own, and gone afterwards whatever happened.

@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with temporary_cluster(simulated_nodes=10) as cluster:
        yield cluster
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping, Sequence

from edgewise.local.clusters import LocalCluster, LocalClusterSpec, down, up
from edgewise.local.network.delay import Delay
from edgewise.local.spec import HOST


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
    authentication: str = "",
    places: Mapping[str, Sequence[Delay | float]] | None = None,
    host_latency: float = 0.0,
) -> Iterator[LocalCluster]:
    """A cluster for as long as the block runs.

    `controllers=False` is an API server with etcd alone: it starts fastest, and
    nothing there changes what a test did not change. `places` says how far each node is from
    them, in milliseconds one way, in the order of the nodes; `host_latency` how far the whole
    cluster is from the host.
    """
    name = unique_name(prefix)
    spec = LocalClusterSpec(
        name=name,
        nodes=nodes,
        simulated_nodes=simulated_nodes,
        region=region,
        controllers=controllers,
        authentication=authentication,
        latency={HOST: host_latency} if host_latency else {},
        places={
            place: {
                f"{name}-{number}": delay if isinstance(delay, Delay) else Delay(delay)
                for number, delay in enumerate(away, start=1)
            }
            for place, away in (places or {}).items()
        },
    )
    try:
        yield up(spec)
    finally:
        down(spec.name)
