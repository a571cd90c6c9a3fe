"""What a search does while something that it needs is away: it waits, says so, and goes on."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from edgewise.agents.reports.broker import running_broker
from edgewise.api.placement import LatencyPlacement
from edgewise.local import faults
from tests.e2e.placement.stage import Stage

RTTS = (200, 150, 100, 50, 25, 5)


def says(placement: LatencyPlacement, words: str) -> bool:
    return any(words in each.message for each in placement.status.conditions)


def rtts(stage: Stage) -> dict[str, float]:
    return dict(zip(stage.nodes, RTTS, strict=True))


async def goes_on(stage: Stage) -> None:
    await stage.ended("web")
    assert await stage.held("web") == [stage.nodes[5]]
    await stage.nothing_is_left("web")
    assert stage.least_ready >= 1


@contextlib.asynccontextmanager
async def searching(stage: Stage) -> AsyncIterator[None]:
    await stage.deploy("web", on=stage.nodes[0])
    await stage.place("web", sentinels=1)
    async with stage.watching("web"):
        yield


async def test_a_broker_that_is_killed_and_comes_back(stage: Stage) -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with running_broker("127.0.0.1") as broker:
            await stack.enter_async_context(stage.reports(broker))
            await stack.enter_async_context(stage.operator(webhooks=False))
            await stack.enter_async_context(searching(stage))
            await stack.enter_async_context(stage.users("web", rtts(stage)))
            await stage.until("web", lambda found: bool(found.status.sentinels))
        found = await stage.until("web", lambda one: says(one, "hears nothing"))
        assert found.status.waiting_since is not None
        assert found.status.search.ended_at is None
        at = {"port": broker.public, "private": broker.private}
        async with running_broker("127.0.0.1", **at):
            await goes_on(stage)


async def test_clients_whose_keys_are_over_are_not_heard_until_they_have_new_ones(
    stage: Stage,
) -> None:
    async with (
        stage.reports(),
        stage.operator(webhooks=False),
        searching(stage),
        stage.users("web", rtts(stage)) as users,
    ):
        await stage.until("web", lambda found: bool(found.status.sentinels))
        users.key_lasts = -1.0
        found = await stage.until("web", lambda one: says(one, "no client reports"))
        assert found.status.search.ended_at is None
        users.key_lasts = 600.0
        await goes_on(stage)


async def test_a_scheduler_that_stands_still_is_waited_for(stage: Stage) -> None:
    async with stage.reports(), stage.operator(webhooks=False), searching(stage):
        faults.pause(stage.cluster, "kube-scheduler")
        try:
            async with stage.users("web", rtts(stage)):
                await stage.until("web", lambda one: says(one, "waits for kube-scheduler"))
                faults.resume(stage.cluster, "kube-scheduler")
                await goes_on(stage)
        finally:
            faults.resume(stage.cluster, "kube-scheduler")
