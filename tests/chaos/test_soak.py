"""A short soak on real nodes: all trouble comes once, and nothing is left of it.

    EDGEWISE_CHAOS_SEED=<seed> pytest tests/chaos/test_soak.py

plays one soak again, as far as that is possible with real processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from edgewise.bench.soak.plan import TROUBLES, planned
from edgewise.bench.soak.soak import Soak, Stage
from edgewise.bench.soak.weighing import IDLE_SECONDS
from edgewise.cli.bench.soak import wrong
from edgewise.domain import install_domains
from edgewise.local.clusters import LocalCluster
from edgewise.local.images.building import PYTHON_IMAGE
from edgewise.local.platform import running_platform
from edgewise.sessions.domain import SESSIONS
from edgewise.testing.clusters import temporary_cluster

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
ONLY = os.environ.get("EDGEWISE_CHAOS_SEED", "")
SECONDS = 120.0 if LONG else 30.0
SHARES = ""  # it kills the nodes of a cluster of its own

pytestmark = [pytest.mark.chaos, pytest.mark.root]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with temporary_cluster("soak", nodes=2) as made:
        yield made


@pytest.mark.timeout(1500)
async def test_everything_is_as_it_should_be_after_a_soak(cluster: LocalCluster) -> None:
    acts = planned(int(ONLY or 1), SECONDS)
    async with cluster.client() as client:
        await install_domains(client, [SESSIONS], SESSIONS.kinds)
        async with running_platform(cluster) as platform:
            assert platform.gateway is not None
            stage = Stage(cluster, client, platform, platform.gateway, PYTHON_IMAGE)
            soak = Soak(stage, acts, wrong, print, idle_seconds=IDLE_SECONDS if LONG else 0)
            await soak.run()
    figures = soak.figures()
    assert figures["whole"]
    assert figures["violations"] == []
    assert figures["steps"].keys() >= TROUBLES.keys()
    grown = figures["growth"]
    assert grown["routes"] == grown["ports"] == 0
    if LONG:  # else it is not waited for until idle connections are closed
        ours = {name: grown["kinds"].get(name, {}) for name in ("operator", "gateway", "envoy")}
        assert ours == {"operator": {}, "gateway": {}, "envoy": {}}
