"""What becomes of a sentinel that does not simply win or lose, and what the conditions say."""

from __future__ import annotations

import msgspec
import pytest

from edgewise.api.placement import Phase
from edgewise.kube.conditions import Condition
from edgewise.placement.observed import Role
from edgewise.placement.plan import plan
from tests.unit.placement.world import World

FOUR = {"n1": 100.0, "n2": 60.0, "n3": 30.0, "n4": 10.0}


def condition(world: World, kind: str) -> Condition:
    (found,) = [each for each in world.status.conditions if each.type == kind]
    return found


def until_a_sentinel_is_ready(world: World) -> str:
    """The node on which it is."""
    while not any(each.ready_at for each in world.status.sentinels):
        world.step()
        world.tick(0.1)
    return world.status.sentinels[0].node


def sentinels_of(world: World) -> list[str]:
    return [box.node for box in world.pods if box.role is Role.SENTINEL and box.deleting_at is None]


def test_one_that_is_not_ready_within_a_minute_goes_and_the_search_goes_on() -> None:
    world = World(FOUR, on=["n2"], start_seconds=1e6)
    until = world.now + 59
    while world.now < until:
        world.step()
        world.tick()
    (first,) = sentinels_of(world)
    world.run(3)
    assert world.why() == {first: "NotStarted"}
    world.start_seconds = 1.0
    world.run(200)
    assert world.status.search.ended_at is not None
    assert world.held() == [min(FOUR.keys() - {first}, key=lambda node: FOUR[node])]
    assert world.least_ready == 1


@pytest.mark.parametrize(("event", "why"), [("cordoned", "Cordoned"), ("down", "NotReady")])
def test_one_whose_node_is_taken_out_goes_at_once(event: str, why: str) -> None:
    world = World(FOUR, on=["n2"])
    node = until_a_sentinel_is_ready(world)
    getattr(world, event).add(node)
    world.step()
    assert world.why()[node] == why
    assert node not in sentinels_of(world)
    world.run(200)
    assert node not in world.held()
    assert world.status.search.ended_at is not None


@pytest.mark.parametrize(("after_ready", "counts"), [(0.5, False), (1.0, True)])
def test_only_a_report_over_the_observation_begun_after_it_was_ready_counts(
    after_ready: float, counts: bool
) -> None:
    """What clients measured while it came up, or for less than T_O, decides nothing."""
    world = World(FOUR, on=["n2"])
    until_a_sentinel_is_ready(world)
    (sentinel,) = (box for box in world.pods if box.role is Role.SENTINEL)
    assert sentinel.ready_at is not None
    world.tick(1.5)
    seen = world.seen()
    heard = {
        uid: msgspec.structs.replace(each, last=sentinel.ready_at + after_ready)
        if uid == sentinel.uid
        else each
        for uid, each in seen.heard.items()
    }
    made = plan(msgspec.structs.replace(seen, heard=heard), world.now)
    assert (made.status.decision is not None) is counts
    if not counts:
        assert f"waits for reports of {sentinel.name}" in made.status.message


def test_a_trigger_that_became_shorter_than_a_search_is_a_condition() -> None:
    """As when nodes were added since it was written; the search goes on all the same."""
    world = World(FOUR, on=["n2"], spec={"trigger": "30s"}, start_seconds=1.0)
    world.run(200)
    assert condition(world, "TriggerFits").status == "True"
    for number in range(5, 30):
        world.rtts[f"n{number}"] = 200.0
    world.step()
    found = condition(world, "TriggerFits")
    assert (found.status, found.reason) == ("False", "TooShort")
    assert found.message.startswith("spec.trigger of 30 s is not longer than a search")
    world.run(600)
    assert world.held() == ["n4"]


def test_a_probe_that_reports_contradict_goes_back() -> None:
    """Near by the ping agent, and far through the load balancer that users come by."""
    rtts = {"n1": 80.0, "n2": 40.0, "n3": 5.0}
    world = World(rtts, on=["n2"], probes=True, spec={"mode": "Probe"}, detour={"n3": 300.0})
    world.run(60)
    assert world.why()["n3"] == "Unconfirmed"
    assert world.held() == ["n2"]
    assert world.status.phase == Phase.CONVERGED
    assert world.least_ready == 1


def test_a_node_whose_new_replica_is_taken_away_is_not_looked_at_again() -> None:
    """Otherwise somebody who deletes pods could have one search go on for ever."""
    world = World(FOUR, on=["n2"], prefer=["n4", "n3", "n1"])
    while world.held() != ["n4"] or world.status.decision is not None:
        world.step()
        world.tick(0.1)
    for box in world.pods:
        if box.node == "n4":
            box.deleting_at = world.now
    world.prefer = ["n1"]  # where the ReplicaSet's next one goes
    world.tick()
    world.run(200)
    assert world.status.search.ended_at is not None
    assert world.why()["n4"] == "Lost"
    assert world.held() == ["n3"]
    assert [node for _, node in world.visits].count("n4") == 1
    world.prefer = []
    world.tick(301)
    world.run(200)
    assert (world.status.search.number, world.held()) == (2, ["n4"]), "the next search finds it"
