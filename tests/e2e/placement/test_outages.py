"""What a search on real nodes does while something that it needs is away: it waits, says so, and
goes on."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from edgewise.agents.reports.broker import running_broker
from edgewise.api.placement import LatencyPlacement
from edgewise.local import faults
from tests.e2e.local.workloads import web_spec
from tests.e2e.placement.stage import Stage

SHARES = "nodes"
pytestmark = pytest.mark.root


def says(placement: LatencyPlacement, words: str) -> bool:
    return any(words in each.message for each in placement.status.conditions)


def rtts(stage: Stage) -> dict[str, float]:
    return dict(zip(stage.nodes, (200.0, 5.0), strict=False))


async def goes_on(stage: Stage) -> None:
    await stage.ended("web")
    assert await stage.held("web") == [stage.nodes[1]]
    await stage.nothing_is_left("web")
    assert stage.least_ready >= 1


@contextlib.asynccontextmanager
async def searching(stage: Stage) -> AsyncIterator[None]:
    """From one real node to the other."""
    here, _, *simulated = stage.nodes
    await stage.deploy("web", on=here, pod=web_spec())
    await stage.cordon(*simulated)
    await stage.place("web", sentinels=1)
    async with stage.watching("web"):
        yield


async def test_a_broker_that_is_killed_and_comes_back(real: Stage) -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with running_broker("127.0.0.1") as broker:
            await stack.enter_async_context(real.reports(broker))
            await stack.enter_async_context(real.operator(webhooks=False))
            await stack.enter_async_context(searching(real))
            await stack.enter_async_context(real.users("web", rtts(real)))
            await real.until("web", lambda found: bool(found.status.sentinels))
        found = await real.until("web", lambda one: says(one, "hears nothing"))
        assert found.status.waiting_since is not None
        assert found.status.search.ended_at is None
        at = {"port": broker.public, "private": broker.private}
        async with running_broker("127.0.0.1", **at):
            await goes_on(real)


async def test_clients_whose_keys_are_over_are_not_heard_until_they_have_new_ones(
    real: Stage,
) -> None:
    async with (
        real.reports(),
        real.operator(webhooks=False),
        searching(real),
        real.users("web", rtts(real)) as users,
    ):
        await real.until("web", lambda found: bool(found.status.sentinels))
        users.key_lasts = -1.0
        found = await real.until("web", lambda one: says(one, "no client reports"))
        assert found.status.search.ended_at is None
        users.key_lasts = 600.0
        await goes_on(real)


async def test_a_scheduler_that_stands_still_is_waited_for(real: Stage) -> None:
    async with real.reports(), real.operator(webhooks=False), searching(real):
        faults.pause(real.cluster, "kube-scheduler")
        try:
            async with real.users("web", rtts(real)):
                await real.until("web", lambda one: says(one, "waits for kube-scheduler"))
                faults.resume(real.cluster, "kube-scheduler")
                await goes_on(real)
        finally:
            faults.resume(real.cluster, "kube-scheduler")
