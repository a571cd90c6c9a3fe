"""`edgewise game allocate --server`: what it asks, whatever names it is given."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edgewise.cli.game import server as by_server
from edgewise.cli.game.cluster import GameError, NoneFree
from edgewise.client.errors import Unreachable
from edgewise.client.games.views import Allocation


class Recorded:
    """In the place of the connection: what would have been asked."""

    asked: list[tuple[str, str, float]]  # method, path, and how long an answer may take
    error: Exception | None = None
    free_after = 1  # so many questions after the first call, a server is free

    def __init__(self, url: str, token: str) -> None:
        type(self).asked = []

    async def __aenter__(self) -> Recorded:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def call(
        self, method: str, path: str, kind: Any, *, seconds: float = 15.0, **_: Any
    ) -> Allocation:
        self.asked.append((method, path, seconds))
        await asyncio.sleep(0.01)
        if self.error is not None:
            raise self.error
        state = "queued" if len(self.asked) <= self.free_after else "allocated"
        return Allocation(game="arena", match="m", state=state, uid="u", server="arena-1")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> type[Recorded]:
    monkeypatch.setenv(by_server.TOKEN, "t")
    monkeypatch.setattr(by_server, "Transport", Recorded)
    monkeypatch.setattr(Recorded, "error", None)
    monkeypatch.setattr(Recorded, "free_after", 1)
    return Recorded


async def test_a_name_leads_nowhere_else(recorded: type[Recorded]) -> None:
    await by_server.allocate("http://edge", "../sessions", "m/../../x?y", 5)
    assert [path for _, path, _ in recorded.asked] == [
        "/v1/games/..%2Fsessions/allocations",
        "/v1/games/..%2Fsessions/allocations/m%2F..%2F..%2Fx%3Fy",
    ]


async def test_a_place_in_the_line_is_asked_for_again_until_the_time_is_over(
    recorded: type[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "free_after", 5)
    found = await by_server.allocate("http://edge", "arena", "m", 300)
    assert found.name == "arena-1"
    assert [method for method, _, _ in recorded.asked] == ["POST", *["GET"] * 5]
    # Each question outlasts what the server waits, which is 20 s here.
    assert all(seconds > 20 for method, _, seconds in recorded.asked if method == "GET")


async def test_who_waits_no_longer_gives_the_place_back(
    recorded: type[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "free_after", 10**9)
    with pytest.raises(NoneFree, match=r"became free for m within 0\.01 s"):
        await by_server.allocate("http://edge", "arena", "m", 0.01)
    assert recorded.asked[-1][:2] == ("DELETE", "/v1/games/arena/allocations/m?uid=u")


async def test_a_server_that_does_not_answer_gets_a_sentence(
    recorded: type[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "error", Unreachable("http://edge does not answer"))
    with pytest.raises(GameError, match="does not answer"):
        await by_server.allocate("http://edge", "arena", "m", 0)
