"""A search on a real control plane, with an operator that is killed at any of its writes.

`make test` plays the writes that matter most, `make chaos` every one of them, before and after it.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from edgewise.api.placement import LatencyPlacement
from edgewise.kube.kinds.core import Pod
from edgewise.placement.domain import PLACEMENT
from tests.chaos.harness import Counts, CutClient, killed_at_write
from tests.e2e.placement.stage import Stage

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
RTTS = (200, 150, 100, 50, 25, 5)
# A part by itself takes a few minutes.
PARTS = 4

pytestmark = pytest.mark.chaos


def of(kind: type, args: tuple[Any, ...]) -> bool:
    return bool(args) and (args[0] is kind or type(args[0]) is kind)


def deletes(name: str, args: tuple[Any, ...]) -> bool:
    return name == "request" and args[0] == "DELETE" and "/pods/" in args[1]


def ours(name: str, args: tuple[Any, ...]) -> bool:
    """Writes of pods and placements. Events only tell of what was done."""
    return of(Pod, args) or of(LatencyPlacement, args) or deletes(name, args)


def call(method: str) -> Counts:
    def counts(name: str, args: tuple[Any, ...]) -> bool:
        return name == method and of(Pod, args)

    return counts


# Which write, the how many-eth of its kind, and whether the operator dies after it or before.
MOMENTS: dict[str, tuple[Counts, int, bool]] = {
    "the second sentinel of a round is not made": (call("create"), 2, False),
    "the cost is on the loser": (call("patch"), 1, True),
    "the winner is the ReplicaSet's": (call("patch"), 2, True),
    "the first sentinel that lost is deleted": (deletes, 1, True),
}


async def survives(
    stage: Stage, name: str, counts: Counts, cut_at: int | None, *, after: bool
) -> CutClient:
    """A search that ends as if nothing had happened."""
    stage.least_ready = 10**6
    await stage.deploy(name, on=stage.nodes[0])
    await stage.place(name, sentinels=2)
    async with (
        stage.users(name, dict(zip(stage.nodes, RTTS, strict=True))),
        stage.watching(name),
        killed_at_write(
            PLACEMENT, stage.client, stage.system, cut_at, after=after, counts=counts
        ) as first,
    ):
        found = await stage.ended(name)
        assert await stage.held(name) == [stage.nodes[5]]
        visited = [each.node for each in found.status.visited]
        assert len(visited) == len(set(visited))
        await stage.nothing_is_left(name)
    assert stage.least_ready >= 1
    await stage.remove(name)
    return first


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_search_survives_an_operator_that_dies_when(moment: str, stage: Stage) -> None:
    counts, number, after = MOMENTS[moment]
    stage.system = stage.namespace
    async with stage.reports():
        first = await survives(stage, "web", counts, number, after=after)
    assert first.dead.is_set(), "it was never killed"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS) if LONG else [0])
async def test_a_search_survives_an_operator_that_dies_at_any_write(
    stage: Stage, part: int
) -> None:
    """In `make test`, at one of them; in `make chaos`, each part has every so many-eth."""
    stage.system = stage.namespace
    async with stage.reports():
        writes = (await survives(stage, "web", ours, None, after=False)).writes
        cuts = [(number, after) for number in range(1, writes + 1) for after in (False, True)]
        for number, after in cuts[part::PARTS] if LONG else random.sample(cuts, 1):
            moment = f"{'after' if after else 'before'} write {number} of {writes}"
            try:
                first = await survives(stage, f"web-{number}-{after:d}", ours, number, after=after)
            except AssertionError as error:
                raise AssertionError(f"killed {moment}: {error}") from error
            # Some writes only tell numbers, and are fewer in another run.
            assert first.dead.is_set() or number > writes / 2, moment
