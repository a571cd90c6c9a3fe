"""A fleet of an old version: what it makes, and whom it leaves alone."""

from __future__ import annotations

import pytest

from edgewise.api.games import Fleet, FleetSpec, Scaling, ServerSpec
from edgewise.gameservers.fleet.plan import FleetObserved, FleetPlan, ServerSeen, plan_fleet
from edgewise.gameservers.outgoing import OUTGOING
from edgewise.kube.objects import ObjectMeta

POD = {"containers": [{"name": "game", "image": "arena:1"}]}


def planned(outgoing: str, replicas: int, *servers: ServerSeen) -> FleetPlan:
    marks = {OUTGOING: outgoing} if outgoing else {}
    fleet = Fleet(
        metadata=ObjectMeta(name="arena-v1", namespace="play", uid="f", annotations=marks),
        spec=FleetSpec(scaling=Scaling(replicas=replicas), spec=ServerSpec(pod=POD)),
    )
    seen = FleetObserved(fleet=fleet, servers=servers, version="v1", numbers=(9, 20))
    return plan_fleet(seen, 1_800_000_000.0)


PLAYING = ServerSeen(name="a", uid="a", number=0, state="Allocated", allocated=True)
IDLE = ServerSeen(name="b", uid="b", number=1, state="Ready")


@pytest.mark.parametrize("outgoing", ["Idle", "All", "Now", "a word of a newer operator"])
def test_what_it_loses_is_not_replaced(outgoing: str) -> None:
    assert planned("", 2, PLAYING).create == (9,)
    plan = planned(outgoing, 2, PLAYING)
    assert (plan.create, plan.reserve) == ((), None)


def test_with_idle_only_those_go_that_nobody_has() -> None:
    plan = planned("Idle", 0, PLAYING, IDLE)
    assert ([each.name for each in plan.retire], plan.delete) == (["b"], ())


def test_with_all_those_that_play_are_asked_too() -> None:
    plan = planned("All", 0, PLAYING, IDLE)
    assert [each.name for each in plan.delete] == ["a"]
