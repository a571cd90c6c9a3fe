"""The fault suite: many seeded runs at once, with restarts of API server and etcd in between.

`make test` does 200 of them, `make chaos` 2,000. A failure names its seed, which

    EDGEWISE_CHAOS_SEED=<seed> pytest tests/chaos

runs again. EDGEWISE_CHAOS_RUNS sets another number, EDGEWISE_CHAOS_FIRST another first seed.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator

import pytest

from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.testing.fault_proxy import Upstream
from tests.chaos.mirror_run import MirrorRun
from tests.integration.conftest import ApiServer

BATCH = 20
LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
RUNS = int(os.environ.get("EDGEWISE_CHAOS_RUNS", "2000" if LONG else "200"))
FIRST = int(os.environ.get("EDGEWISE_CHAOS_FIRST", "0"))
ONLY = os.environ.get("EDGEWISE_CHAOS_SEED", "")

SEEDS = [int(ONLY)] if ONLY else list(range(FIRST, FIRST + RUNS))
BATCHES = [SEEDS[start : start + BATCH] for start in range(0, len(SEEDS), BATCH)]


def restart_for(seed: int) -> str:
    """Which program is restarted during the batch that a seed belongs to."""
    return {2: "api_server", 4: "etcd"}.get(seed // BATCH % 5, "")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of lines about faults that we made help nobody, except in a replay."""
    logger = logging.getLogger("edgewise")
    if not ONLY:
        logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


@pytest.mark.chaos
@pytest.mark.parametrize("seeds", BATCHES, ids=lambda seeds: f"seeds-{seeds[0]}-{seeds[-1]}")
async def test_everything_is_as_it_should_be_after(seeds: list[int], api_server: ApiServer) -> None:
    access = load_access(api_server.kubeconfig)
    async with Client(access, timeout=5.0) as direct, Upstream(access).connected() as upstream:
        runs = [MirrorRun(seed, direct, upstream) for seed in seeds]
        work = asyncio.gather(*(run() for run in runs), return_exceptions=True)
        if component := restart_for(seeds[0]):
            restart = getattr(api_server, f"restart_{component}")
            kill = seeds[0] // BATCH % 2 == 0
            await asyncio.gather(asyncio.to_thread(restart, kill=kill), work)
        results = await work
    failed = [
        f"seed {run.seed}: {result!r}\n    faults: {' '.join(run.faults.happened)}\n"
        f"    replay with EDGEWISE_CHAOS_SEED={run.seed} pytest tests/chaos"
        for run, result in zip(runs, results, strict=True)
        if isinstance(result, BaseException)
    ]
    assert not failed, "\n".join([f"{len(failed)} of {len(runs)} runs failed", *failed])
