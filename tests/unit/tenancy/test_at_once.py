"""What is done several at a time leaves nothing behind when it is cut off."""

from __future__ import annotations

import asyncio
from inspect import CORO_CLOSED, getcoroutinestate

import pytest

from edgewise.tenancy.apply import at_once


async def test_calls_that_were_never_begun_are_given_up_with_the_others() -> None:
    """Python would warn of each, long after, wherever it happens to look."""
    begun: list[int] = []

    async def call(number: int) -> None:
        begun.append(number)
        await asyncio.Event().wait()

    calls = [call(number) for number in range(5)]
    running = asyncio.create_task(at_once(2, calls))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert begun == [0, 1]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [getcoroutinestate(each) for each in calls] == [CORO_CLOSED] * 5


async def test_all_are_tried_and_the_first_error_is_raised() -> None:
    tried: list[int] = []

    async def call(number: int) -> None:
        tried.append(number)
        if number:
            raise ValueError(str(number))

    with pytest.raises(ValueError, match="1"):
        await at_once(2, [call(number) for number in range(4)])
    assert sorted(tried) == [0, 1, 2, 3]
