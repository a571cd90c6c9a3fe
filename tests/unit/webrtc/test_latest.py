"""The newest picture wins, and what nobody took is counted."""

import asyncio

import pytest
from webrtc_detector.latest import Closed, Latest


async def test_a_newer_value_replaces_one_nobody_took() -> None:
    slot: Latest[str] = Latest()
    for value in ("old", "newer", "newest"):
        slot.put(value)
    assert await slot.take() == "newest"
    assert slot.dropped == 2


async def test_nothing_is_dropped_when_each_value_is_taken() -> None:
    slot: Latest[int] = Latest()
    for number in range(3):
        slot.put(number)
        assert await slot.take() == number
    assert slot.dropped == 0


async def test_the_taker_waits_for_a_value() -> None:
    slot: Latest[str] = Latest()
    taking = asyncio.create_task(slot.take())
    await asyncio.sleep(0)
    assert not taking.done()
    slot.put("it")
    assert await asyncio.wait_for(taking, 5) == "it"


async def test_a_value_is_given_once() -> None:
    slot: Latest[str] = Latest()
    slot.put("it")
    await slot.take()
    again = asyncio.create_task(slot.take())
    await asyncio.sleep(0)
    assert not again.done()
    again.cancel()


async def test_closing_wakes_the_taker() -> None:
    slot: Latest[str] = Latest()
    taking = asyncio.create_task(slot.take())
    await asyncio.sleep(0)
    slot.close()
    with pytest.raises(Closed):
        await asyncio.wait_for(taking, 5)
