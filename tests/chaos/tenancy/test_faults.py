"""Seeded runs with two operators that know nothing of each other, each behind a proxy that breaks
its connections, delays and repeats what it watches, and loses its answers; one of them is killed
again and again. `make test` does some of them, `make chaos` 200. A failure names its seed, which

    EDGEWISE_CHAOS_SEED=<seed> pytest tests/chaos/tenancy/test_faults.py

runs again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from random import Random

import pytest

from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.local.clusters import LocalCluster
from edgewise.testing.eventually import eventually
from edgewise.testing.fault_proxy import FaultProxy, Upstream
from edgewise.testing.faults import Asking, Fault, SeededFaults
from tests.chaos.tenancy.operators import life
from tests.chaos.tenancy.people import Somebody
from tests.chaos.tenancy.witness import NOT_YET, Witness, at_rest

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
ONLY = os.environ.get("EDGEWISE_CHAOS_SEED", "")
RUNS = int(os.environ.get("EDGEWISE_CHAOS_RUNS", "200" if LONG else "4"))
BATCH = 10
SEEDS = [int(ONLY)] if ONLY else list(range(RUNS))
BATCHES = [SEEDS[start : start + BATCH] for start in range(0, len(SEEDS), BATCH)]
ACTS = 20
FAULTS = 60
SETTLED_WITHIN = 180.0  # spent only where something is wrong, or the machine is very busy

pytestmark = pytest.mark.chaos


class WatchesSpeak(SeededFaults):
    """A watch that falls silent is given up after a minute and a half: here it is late instead."""

    def choose(self, asking: Asking) -> Fault | None:
        fault = super().choose(asking)
        silent = fault is Fault.SILENT and asking in (Asking.WATCH, Asking.EVENT)
        return Fault.DELAY if silent else fault


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Lines about faults that we made help nobody, except in a replay."""
    logger = logging.getLogger("edgewise")
    if not ONLY:
        logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


@contextlib.asynccontextmanager
async def troubled_operator(
    upstream: Upstream, faults: WatchesSpeak, chance: Random, *, dies: bool
) -> AsyncIterator[None]:
    """Behind its own proxy; one that dies is there again at once."""
    async with FaultProxy(upstream, faults, delay=0.3).running() as proxy:

        async def lives() -> None:
            while True:
                async with Client(proxy.access, timeout=2.0) as client:
                    await life(client, 1.0 + 3.0 * chance.random() if dies else 3600)

        running = asyncio.create_task(lives())
        try:
            yield
            assert not running.done(), running
        finally:
            running.cancel()
            await asyncio.wait({running})


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seeds", BATCHES, ids=lambda seeds: f"seeds-{seeds[0]}-{seeds[-1]}")
async def test_no_promise_is_broken_by_two_operators_with_faults(
    seeds: list[int], cluster: LocalCluster, admin: Client
) -> None:
    access, chance = load_access(cluster.kubeconfig), Random(seeds[0])
    people = [Somebody(each, f"f{each}-{secrets.token_hex(3)}", admin) for each in seeds]
    both = [WatchesSpeak(2 * seeds[0] + number, most=FAULTS) for number in range(2)]
    async with (
        cluster.client() as eyes,
        Witness(eyes).watching() as witness,
        Upstream(access).connected() as upstream,
        troubled_operator(upstream, both[0], chance, dies=True),
        troubled_operator(upstream, both[1], chance, dies=False),
    ):
        await asyncio.gather(*(_live(each) for each in people))
        for faults in both:
            faults.heal()
        ended = await asyncio.gather(*(_settle(admin, each) for each in people))
    failed = [
        f"seed {each.seed}: {what}\n    replay with EDGEWISE_CHAOS_SEED={each.seed}"
        for each, left in zip(people, ended, strict=True)
        for what in (*left, *witness.broken(each.root))
    ]
    assert not failed, "\n".join([f"of {len(people)} runs:", *failed])


async def _live(somebody: Somebody) -> None:
    chance = Random(-somebody.seed - 1)
    await somebody.begin()
    for _ in range(ACTS):
        await asyncio.sleep(0.4 * chance.random())
        await somebody.act()


async def _settle(admin: Client, somebody: Somebody) -> list[str]:
    try:
        await eventually(
            lambda: at_rest(admin, somebody.root), within=SETTLED_WITHIN, every=0.5, not_yet=NOT_YET
        )
    except (AssertionError, *NOT_YET) as error:
        return [f"it never came to rest: {error}"]
    return []
