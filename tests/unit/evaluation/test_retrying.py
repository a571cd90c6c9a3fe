"""Who is refused tries again, sooner when there is news, and not for ever."""

from __future__ import annotations

import asyncio

import pytest

from edgewise.bench.evaluation.cases.retrying import insist, pauses
from edgewise.bench.evaluation.evaluation import compressed
from edgewise.kube.errors import Conflict, Forbidden, KubeError, Unreachable
from edgewise.runtime.awaiting import WaitedInVain


async def test_tries_end_with_a_sentence() -> None:
    tried = []

    async def client() -> None:
        async for number in pauses(0.001, 0.05):
            tried.append(number)

    with pytest.raises(WaitedInVain, match="no pod took the client within 0 s"):
        await client()
    assert tried == list(range(len(tried)))
    assert tried


async def test_news_that_come_during_a_try_end_the_pause_after_it() -> None:
    news: list[asyncio.Event] = []

    def sooner() -> asyncio.Event:
        news.append(asyncio.Event())
        return news[-1]

    async with asyncio.timeout(30):  # two pauses of an hour
        async for number in pauses(3600, 7200, sooner=sooner):
            if number == 2:
                break
            news[-1].set()


async def test_after_news_the_pauses_are_short_again() -> None:
    """A pod that is ready may still need a moment until its Service leads to it."""
    news = asyncio.Event()
    began: list[float] = []
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(30):
        async for number in pauses(0.02, 7200, sooner=lambda: news):
            began.append(loop.time())
            news.clear()
            if number == 12:  # the pause before it was 0.02 · 1.3^11 · (0.5 to 1.5): 0.18 s or more
                loop.call_soon(news.set)
            if number == 14:
                break
    assert began[12] - began[11] > 0.15
    assert began[14] - began[13] < 0.15  # 0.03 s at most, and what the machine takes


async def test_who_leaves_at_the_moment_of_news_leaves() -> None:
    for turns in range(4):
        news = asyncio.Event()

        async def client(sooner: asyncio.Event = news) -> None:
            async for _ in pauses(3600, 7200, sooner=lambda: sooner):
                sooner.clear()

        task = asyncio.create_task(client())
        await asyncio.sleep(0.01)
        news.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=5)
        assert done, f"it goes on for ever when it is told {turns} moments later"


@pytest.mark.parametrize("error", [Unreachable("no answer"), Conflict(409, "Conflict", "no")])
async def test_a_call_that_may_be_repeated_is_and_a_refusal_is_not(error: KubeError) -> None:
    calls = []

    async def call() -> None:
        calls.append(1)
        if len(calls) < 3:
            raise error

    await insist(call)
    assert len(calls) == 3

    async def refused() -> None:
        calls.append(1)
        raise Forbidden(403, "Forbidden", "no")

    with pytest.raises(Forbidden):
        await insist(refused)
    assert len(calls) == 4


def test_a_time_of_the_trace_is_compressed_like_the_rest() -> None:
    assert [compressed(seconds, 10) for seconds in (0, 2, 10, 60)] == [0, 1, 1, 6]
    assert compressed(40, 1) == 40
