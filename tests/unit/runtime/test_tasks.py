"""Tasks beside the controllers: they end when they are told to, and come back when they fail."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from edgewise.runtime.backoff import Backoff
from edgewise.runtime.tasks import RECOVERED, Task, Tasks, keep
from edgewise.testing.virtual_time import run_in_virtual_time

BACKOFF = Backoff(first=1.0, most=8.0)


class Failing:
    """Fails after each of these seconds, then works to its end."""

    def __init__(self, *after: float) -> None:
        self.after = list(after)
        self.began: list[float] = []

    async def run(self) -> None:
        self.began.append(asyncio.get_running_loop().time())
        if self.after:
            await asyncio.sleep(self.after.pop(0))
            raise ValueError("broken")


@pytest.mark.parametrize(
    ("after", "waits"),
    [
        ((), []),
        ((0.0, 0.0, 0.0), [1.0, 2.0, 4.0]),
        # One that worked for long enough has not failed "again".
        ((0.0, 0.0, RECOVERED, 0.0), [1.0, 2.0, 1.0, 2.0]),
    ],
)
def test_one_that_fails_begins_again_later_each_time(
    after: tuple[float, ...], waits: list[float]
) -> None:
    failing = Failing(*after)
    run_in_virtual_time(keep(Task("t", failing.run), backoff=BACKOFF, chance=lambda: 1.0))
    begun = failing.began
    between = [later - earlier for earlier, later in itertools.pairwise(begun)]
    assert [gap - ran for gap, ran in zip(between, after, strict=True)] == waits


def test_nothing_runs_any_more_when_stop_returns() -> None:
    ended: list[str] = []

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(5)
            ended.append("slow")

    async def main() -> None:
        tasks = Tasks((Task("slow", slow_to_end),))
        for turns in (1, 2):  # a leader may lead again
            tasks.start()
            await asyncio.sleep(1)
            await tasks.stop()
            assert ended == ["slow"] * turns
        await tasks.stop()

    run_in_virtual_time(main())
