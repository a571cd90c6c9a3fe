"""Clients go to clusters in turn, or to those that are as near as the nearest."""

from __future__ import annotations

import asyncio
import math
import socket

import pytest

from edgewise.bench.evaluation import choosing
from edgewise.bench.evaluation.choosing import Choosing, nearest, seconds_to


@pytest.mark.parametrize(
    ("away", "found"),
    {
        "noise decides nothing": ([0.0010, 0.0015, 0.0029], [0, 1, 2]),
        "the far one is left out": ([0.011, 0.001, 0.0012], [1, 2]),
        "one that does not answer is not near": ([math.inf, 0.3], [1]),
        "where none answers, all are alike": ([math.inf, math.inf], [0, 1]),
    }.values(),
)
def test_what_is_near(away: list[float], found: list[int]) -> None:
    assert nearest(away) == found


def test_without_measuring_it_is_the_next_one_in_turn() -> None:
    made = Choosing(["a", "b", "c"])
    assert [made.next() for _ in range(5)] == [0, 1, 2, 0, 1]


async def test_a_refused_connection_is_an_answer_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert await seconds_to("127.0.0.1", port) < 1
    assert await seconds_to("127.0.0.1", port) < 1


async def test_a_cluster_that_no_longer_answers_gets_no_more_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choosing, "MEASURE_SECONDS", 0.01)
    found = {"near": 0.001, "far": 0.02}
    asked = asyncio.Semaphore(0)

    async def measured(address: str, port: int) -> float:
        asked.release()
        return found[address]

    monkeypatch.setattr(choosing, "seconds_to", measured)
    made = Choosing(["near", "far"])
    async with asyncio.timeout(30), made.measuring():
        assert {made.next() for _ in range(4)} == {0}
        found["near"] = math.inf
        for _ in range(3 * len(found)):  # one round that had begun, one whole, one more
            await asked.acquire()
        assert {made.next() for _ in range(4)} == {1}
