"""`edgewise game allocate --server`: what it asks, whatever names it is given."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.cli.game import server as by_server
from edgewise.cli.game.cluster import GameError
from edgewise.client.errors import Unreachable


class Recorded:
    """In the place of the connection: what would have been asked."""

    paths: list[str]
    error: Exception | None = None

    def __init__(self, url: str, token: str) -> None:
        type(self).paths = []

    async def __aenter__(self) -> Recorded:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def call(self, method: str, path: str, kind: Any, **_: Any) -> dict[str, Any]:
        self.paths.append(path)
        if self.error is not None:
            raise self.error
        state = "queued" if method == "POST" else "allocated"
        return {"state": state, "server": "arena-1"}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> type[Recorded]:
    monkeypatch.setenv(by_server.TOKEN, "t")
    monkeypatch.setattr(by_server, "Transport", Recorded)
    monkeypatch.setattr(Recorded, "error", None)
    return Recorded


async def test_a_name_leads_nowhere_else(recorded: type[Recorded]) -> None:
    await by_server.allocate("http://edge", "../sessions", "m/../../x?y", 5)
    assert recorded.paths == [
        "/v1/games/..%2Fsessions/allocations",
        "/v1/games/..%2Fsessions/allocations/m%2F..%2F..%2Fx%3Fy",
    ]


async def test_a_server_that_does_not_answer_gets_a_sentence(
    recorded: type[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "error", Unreachable("http://edge does not answer"))
    with pytest.raises(GameError, match="does not answer"):
        await by_server.allocate("http://edge", "arena", "m", 0)
