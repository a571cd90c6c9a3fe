"""What is not there is asked for once in a moment."""

from __future__ import annotations

import asyncio

import pytest

from edgewise.sessions.hub import lookups
from edgewise.sessions.hub.lookups import MISS_SECONDS, Lookups


class Hub:
    def __init__(self) -> None:
        self.there: dict[str, int] = {}
        self.asked: list[str] = []
        self.now = 100.0
        self.hold = asyncio.Event()
        self.hold.set()

    async def ask(self, name: str) -> int | None:
        self.asked.append(name)
        found = self.there.get(name)
        await self.hold.wait()
        if name == "broken":
            raise ConnectionError
        return found

    def lookups(self) -> Lookups[str, int]:
        return Lookups(self.ask, monotonic=lambda: self.now)


async def test_a_miss_is_remembered_for_a_moment() -> None:
    hub = Hub()
    found = hub.lookups()
    assert [await found.find("a") for _ in range(500)] == [None] * 500
    assert hub.asked == ["a"]
    hub.there["a"] = 1
    hub.now += MISS_SECONDS
    assert await found.find("a") == 1
    assert await found.find("a") == 1  # what is there is not remembered: the mirror does that
    assert hub.asked == ["a"] * 3


async def test_many_who_ask_at_once_are_one_question() -> None:
    hub = Hub()
    hub.hold.clear()
    found = hub.lookups()
    asking = [asyncio.create_task(found.find("a")) for _ in range(50)]
    await asyncio.sleep(0)
    asking[0].cancel()
    hub.hold.set()
    assert await asyncio.gather(*asking[1:]) == [None] * 49
    assert hub.asked == ["a"]


async def test_what_was_made_here_is_looked_for_at_once() -> None:
    hub = Hub()
    found = hub.lookups()
    assert await found.find("a") is None
    hub.there["a"] = 1
    found.forget("a")
    assert await found.find("a") == 1


async def test_an_answer_from_before_it_was_made_is_not_remembered() -> None:
    hub = Hub()
    hub.hold.clear()
    found = hub.lookups()
    early = asyncio.create_task(found.find("a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    hub.there["a"] = 1
    found.forget("a")
    hub.hold.set()
    assert await early is None
    assert await found.find("a") == 1


async def test_a_failure_is_told_to_all_and_not_remembered() -> None:
    hub = Hub()
    found = hub.lookups()
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await found.find("broken")
    assert hub.asked == ["broken"] * 2


async def test_no_more_are_remembered_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookups, "MOST_MISSES", 3)
    hub = Hub()
    found = hub.lookups()
    for name in "abcdef":
        await found.find(name)
    assert len(found._missed) <= 4
    assert not found._asking
