"""The search by rows: a cluster, and where it ends."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from edgewise.api.placement import MOST_MOVES, Limit, Phase
from edgewise.placement.observed import Role
from edgewise.placement.plan import plan
from edgewise.workloads.deadlines import stamp
from tests.unit.placement.world import World

TABLE_3 = dict(
    zip(
        [f"n{number}" for number in range(1, 11)],
        [0.5, 10, 25, 50, 75, 100, 150, 200, 300, 500],
        strict=True,
    )
)
FOUR = {"n1": 100.0, "n2": 60.0, "n3": 30.0, "n4": 10.0}


def test_figure_10_step_by_step() -> None:
    """One replica on n2, one sentinel, four nodes: n3 wins, n1 loses, n4 wins."""
    world = World(FOUR, on=["n2"], prefer=["n3", "n1", "n4"])
    story: list[str] = []
    while world.status.search.ended_at is None:
        world.step()
        world.tick(0.05)
        now = f"round {world.status.round}: {','.join(world.held())}"
        story += [now] if story[-1:] != [now] else []
    assert [node for _, node in world.sentinel_nodes] == ["n3", "n1", "n4"]
    assert story == [
        "round 1: n2",
        "round 1: n3",
        "round 2: n3",
        "round 3: n3",
        "round 3: n4",
    ]
    assert world.held() == ["n4"]
    assert world.why() == {"n2": "Replaced", "n1": "Worse", "n3": "Replaced"}
    assert world.status.phase == Phase.CONVERGED
    assert world.status.moves == 2
    assert world.least_ready == 1


ENDS: dict[str, tuple[World, list[str], dict[str, str]]] = {
    "one sentinel, ten nodes": (World(TABLE_3, on=["n6"]), ["n1"], {}),
    "two sentinels": (World(TABLE_3, on=["n10"], spec={"sentinels": 2}), ["n1"], {}),
    "four sentinels": (World(TABLE_3, on=["n3"], spec={"sentinels": 4}), ["n1"], {}),
    "more sentinels than nodes": (World(FOUR, on=["n1"], spec={"sentinels": 9}), ["n4"], {}),
    "three replicas": (
        World(TABLE_3, 3, on=["n8", "n9", "n10"], spec={"sentinels": 2}),
        ["n1", "n2", "n3"],
        {},
    ),
    "the best node is full": (World(FOUR, on=["n2"], full={"n4"}), ["n3"], {"n4": "NoRoom"}),
    "the best node is cordoned": (World(FOUR, on=["n2"]), ["n3"], {}),
    "the best node is silent": (
        World(FOUR, on=["n2"], silent={"n4"}),
        ["n3"],
        {"n4": "NoReports"},
    ),
    "no quota": (World(FOUR, on=["n2"], quota=1), ["n2"], {"n4": "NoQuota", "n1": "NoQuota"}),
    "the names of sentinels are taken": (World(FOUR, on=["n2"], squatters=5), ["n4"], {}),
    "a gain below 5 ms moves nothing": (World({"a": 14.0, "b": 10.0}, on=["a"]), ["a"], {}),
    "a gain below 10 percent moves nothing": (World({"a": 100, "b": 91}, on=["a"]), ["a"], {}),
    "as many replicas as nodes": (World(FOUR, 4), ["n1", "n2", "n3", "n4"], {}),
    "two may share a node": (
        World(FOUR, 2, on=["n1", "n2"], spec={"max_per_node": 2}),
        ["n4", "n4"],
        {},
    ),
    "more replicas than nodes, as few as possible on one": (
        World({"a": 10.0, "b": 100.0}, 3, on=["a", "b", "b"]),
        ["a", "a", "b"],
        {},
    ),
}


@pytest.mark.parametrize("sentence", ENDS)
def test_where_a_search_ends(sentence: str) -> None:
    world, held, why = ENDS[sentence]
    if "cordoned" in sentence:
        world.cordoned = {"n4"}
    world.run(400)
    world.tick(3)
    assert world.status.search.ended_at is not None, world.status.message
    assert world.held() == sorted(held), world.status.message
    assert why.items() <= world.why().items()
    assert world.least_ready >= world.replicas
    assert not [box for box in world.pods if box.role is Role.SENTINEL and not box.deleting_at]
    assert not [box for box in world.pods if box.cost and not box.deleting_at]


@pytest.mark.parametrize("sentinels", [1, 2, 3, 4])
def test_a_search_takes_what_the_model_says(sentinels: int) -> None:
    world = World(TABLE_3, on=["n5"], spec={"sentinels": sentinels}).run(400)
    rounds = -(-(10 - 1) // sentinels)
    assert world.status.round == rounds
    assert world.status.convergence_seconds == pytest.approx(world.status.model_seconds, rel=0.2)
    assert world.status.overload_percent == (1 + sentinels) * 100
    assert world.most_live == 1 + sentinels, "what lost goes before the next ones come"


def test_without_reports_nothing_is_started_and_it_says_since_when() -> None:
    world = World(FOUR, on=["n1"], reports=False).run(60)
    assert world.held() == ["n1"]
    assert not world.sentinel_nodes
    ready = next(each for each in world.status.conditions if each.type == "Ready")
    assert ready.reason == "NoReports"
    assert world.status.waiting_since is not None
    assert world.status.waiting_since in ready.message


@pytest.mark.parametrize("moment", [0.5 * number for number in range(1, 13)])
def test_no_node_is_given_up_because_all_clients_were_silent(moment: float) -> None:
    """Whenever they stop; and those of the replica come back first."""
    world = World(FOUR, on=["n1"])
    world.run(moment)
    world.reports = False
    world.run(60)
    world.silent = FOUR.keys() - set(world.held())
    world.reports = True
    world.run(2)
    world.silent = set()
    world.run(400)
    assert world.held() == ["n4"], world.why()
    assert "NoReports" not in world.why().values()


def test_reports_that_stop_hold_the_search_up_and_it_goes_on_after() -> None:
    world = World(FOUR, on=["n1"])
    world.run(2)
    world.reports = False
    world.run(60)
    before = list(world.moves)
    assert world.status.phase == Phase.SEARCHING
    assert "waits for reports" in world.status.message
    world.reports = True
    world.run(120)
    assert world.held() == ["n4"]
    assert len(world.moves) >= len(before)


def test_a_rollout_ends_the_search_and_the_next_one_begins_with_the_new_revision() -> None:
    world = World(TABLE_3, on=["n6"])
    world.run(3)
    assert world.status.sentinels
    world.rolling = True
    world.step()
    assert world.status.phase == Phase.PAUSED
    assert world.status.sentinels == []
    assert not [box for box in world.pods if box.role is Role.SENTINEL and not box.deleting_at]
    world.rolling, world.revision = False, "rev2"
    world.run(400)
    assert world.status.search.revision == "rev2"
    assert world.held() == ["n1"]


def test_the_trigger_begins_a_search_again() -> None:
    world = World(FOUR, on=["n2"], spec={"trigger": "60s"}).run()
    assert world.held() == ["n4"]
    world.rtts = {"n1": 5.0, "n2": 60.0, "n3": 30.0, "n4": 90.0}
    world.tick(59)
    world.step()
    assert world.status.search.number == 1
    world.tick(2)
    world.step()
    assert (world.status.search.number, world.status.search.reason) == (2, "Trigger")
    world.run()
    assert world.held() == ["n1"]


@pytest.mark.parametrize(("futile", "begins"), [(False, True), (True, False)])
def test_the_threshold_begins_a_search_unless_the_last_one_was_in_vain(
    futile: bool, begins: bool
) -> None:
    world = World(FOUR, on=["n2"], spec={"threshold": Limit(p95_ms=20)}).run()
    world.status.search.futile = futile
    world.over_since = world.now - 1.5
    world.step()
    assert world.status.search.number == 1
    world.tick(0.6)
    world.step()
    assert (world.status.search.number == 2) is begins


def test_a_search_that_cannot_get_below_the_threshold_is_futile() -> None:
    world = World(FOUR, on=["n2"], spec={"threshold": Limit(p95_ms=5)}).run()
    assert world.status.search.futile


def test_the_sla_ends_the_search_early() -> None:
    full = World(TABLE_3, on=["n10"]).run(400)
    early = World(TABLE_3, on=["n10"], spec={"sla": Limit(p95_ms=60)}).run(400)
    assert early.status.phase == Phase.SATISFIED
    assert early.status.sentinel_seconds < full.status.sentinel_seconds
    assert TABLE_3[early.held()[0]] <= 60


def test_an_sla_that_holds_needs_no_sentinel() -> None:
    world = World(TABLE_3, on=["n2"], spec={"sla": Limit(p95_ms=60)}).run(10)
    assert world.status.phase == Phase.SATISFIED
    assert not world.sentinel_nodes


def test_an_sla_that_no_node_keeps_is_violated() -> None:
    world = World(FOUR, on=["n2"], spec={"sla": Limit(p95_ms=1)}).run()
    assert world.status.phase == Phase.VIOLATED


def test_no_more_moves_than_an_hour_allows() -> None:
    world = World(TABLE_3, on=["n10"], spec={"max_moves_per_hour": 1}).run(400)
    assert len(world.moves) == 1
    assert "Limited" in world.why().values()


def test_a_high_limit_is_kept_too() -> None:
    """As many moves are remembered as the highest limit asks for."""
    world = World(TABLE_3, on=["n10"], spec={"max_moves_per_hour": MOST_MOVES})
    world.status.recent_moves = [stamp(world.now - 60)] * (MOST_MOVES - 1)
    world.run(400)
    assert len(world.moves) == 1
    assert "Limited" in world.why().values()
    assert len(world.status.recent_moves) == MOST_MOVES


@pytest.mark.parametrize("mode", ["Sentinel", "Probe"])
def test_noise_of_a_fifth_of_the_gap_moves_nothing_in_ten_searches(mode: str) -> None:
    random = Random(4)
    world = World({"a": 20.0, "b": 45.0, "c": 70.0}, on=["a"], noise=lambda _: random.gauss(0, 5))
    world.spec, world.probes = {"trigger": "40s", "mode": mode}, mode == "Probe"
    for _ in range(10):
        world.run(60)
        world.tick(41)
        world.step()
    assert world.status.search.number >= 10
    assert world.moves == []


def test_the_nodes_that_are_left_are_dealt_out_in_disjoint_parts() -> None:
    world = World(TABLE_3, on=["n6"], spec={"sentinels": 4})
    parts = [each.nodes for each in plan(world.seen(), world.now).create]
    assert len(parts) == 4
    assert sorted(node for part in parts for node in part) == sorted(TABLE_3.keys() - {"n6"})


def test_the_overload_counts_pods_that_end() -> None:
    world = World(TABLE_3, on=["n10"], spec={"sentinels": 4, "max_overload_percent": 300})
    most = 0
    while world.status.search.ended_at is None and world.now < 1_800_000_400:
        world.step()
        most = max(most, len(world.pods))
        world.tick()
    assert world.status.search.ended_at is not None
    assert most <= 3
    assert world.held() == ["n1"]


# A decision, step by step ---------------------------------------------------------------


def deciding() -> World:
    """n2 holds the replica, and the sentinel on n4 has just won: the loser has its cost."""
    world = World({"n2": 60.0, "n4": 10.0}, on=["n2"])
    while not any(box.cost for box in world.pods):
        world.step()
        world.tick(0.1)
    return world


def test_the_cost_is_written_before_the_promotion() -> None:
    world = deciding()
    assert world.moves == []
    world.step()
    assert world.moves == ["n4"]


def test_nothing_is_promoted_while_a_replica_is_not_ready() -> None:
    world = deciding()
    world.pods[0].unready = True
    world.run(10)
    assert world.moves == []
    assert "all replicas to be ready" in world.status.message
    world.pods[0].unready = False
    world.run(10)
    assert world.held() == ["n4"]


def test_a_replica_that_stays_unready_gets_its_cost_taken_back() -> None:
    world = deciding()
    world.pods[0].unready = True
    world.run(70)
    assert world.moves == []
    assert not any(box.cost for box in world.pods)
    assert world.why()["n4"] == "HeldBack"


def test_a_loser_that_survives_a_scale_up_loses_its_cost() -> None:
    world = deciding()
    world.step()
    world.replicas = 2  # as HPA would, at this very moment
    world.run(20)
    assert len(world.held()) == 2
    assert not any(box.cost for box in world.pods)


def test_a_sentinel_that_dies_before_its_promotion_moves_nothing() -> None:
    world = deciding()
    sentinel = next(box for box in world.pods if box.role is Role.SENTINEL)
    sentinel.deleting_at = world.now
    world.run(20)
    assert world.held() == ["n2"]
    assert not any(box.cost for box in world.pods)
    assert world.why()["n4"] == "Lost"


def test_a_target_that_goes_leaves_nothing_of_ours() -> None:
    world = deciding()
    world.target = False
    world.step()
    world.tick(3)
    world.step()
    assert not [box for box in world.pods if box.role is Role.SENTINEL]
    assert not any(box.cost for box in world.pods)


def test_a_sentinel_on_a_node_that_is_lost_goes_at_once() -> None:
    world = World(FOUR, on=["n2"])
    while not world.sentinel_nodes:
        world.step()
        world.tick(0.1)
    node = world.sentinel_nodes[0][1]
    world.down.add(node)
    world.step()
    assert world.why()[node] == "NotReady"
    assert all(
        box.deleting_at for box in world.pods if box.role is Role.SENTINEL and box.node == node
    )
    world.run(200)
    assert world.status.search.ended_at is not None


def test_a_pod_that_no_round_names_is_taken_away() -> None:
    world = World(FOUR, on=["n4"]).run()
    world.create("stray", ["n1"])
    world.step()
    assert all(box.deleting_at for box in world.pods if box.name == "stray")


# Probe ----------------------------------------------------------------------------------


def test_a_probe_moves_once_and_never_to_a_far_node() -> None:
    world = World(TABLE_3, on=["n6"], probes=True, spec={"mode": "Probe"}).run(60)
    assert world.held() == ["n1"]
    assert [node for _, node in world.sentinel_nodes] == ["n1"]
    assert world.status.moves == 1


# Where a search by probes ends, in how many moves, and why some node is out.
PROBED: dict[str, tuple[World, list[str], int, dict[str, str]]] = {
    "the best node is full": (
        World(TABLE_3, on=["n6"], probes=True, full={"n1"}),
        ["n2"],
        1,
        {"n1": "NoRoom"},
    ),
    "three replicas, one sentinel": (
        World(TABLE_3, 3, on=["n8", "n9", "n10"], probes=True),
        ["n1", "n2", "n3"],
        3,
        {},
    ),
    "a node without a ping agent is waited for, and then not": (
        World(TABLE_3, on=["n6"], probes=True, unprobed={"n4"}),
        ["n1"],
        1,
        {},
    ),
    "the node of the replica has no ping agent, and users report it": (
        World(TABLE_3, on=["n6"], probes=True, unprobed={"n6"}),
        ["n1"],
        1,
        {},
    ),
    "nothing is better by enough": (World({"a": 14.0, "b": 10.0}, probes=True), ["a"], 0, {}),
    "the limit of moves": (
        World(TABLE_3, 2, on=["n5", "n6"], probes=True, spec={"max_moves_per_hour": 1}),
        ["n1", "n5"],
        1,
        {},
    ),
    "what reports contradict goes back, whatever the limit": (
        World(FOUR, on=["n3"], probes=True, detour={"n4": 99}, spec={"max_moves_per_hour": 1}),
        ["n3"],
        2,
        {"n4": "Unconfirmed"},
    ),
}


@pytest.mark.parametrize("sentence", PROBED)
def test_where_probes_lead(sentence: str) -> None:
    world, held, moves, why = PROBED[sentence]
    world.spec["mode"] = "Probe"
    world.run(60)
    assert world.status.search.ended_at is not None, world.status.message
    assert (world.held(), world.status.moves) == (held, moves)
    assert why.items() <= world.why().items()
    assert world.least_ready >= world.replicas


def test_a_move_that_waits_to_be_confirmed_holds_no_other_mode_up() -> None:
    """The mode is changed in the middle: sentinels measure for themselves."""
    world = World(TABLE_3, on=["n6"], probes=True, silent={"n1"}, spec={"mode": "Probe"})
    while not world.status.unconfirmed:
        world.step()
        world.tick()
    world.silent = set()
    world.spec = {"mode": "Sentinel", "sla": Limit(p95_ms=60)}
    world.run(60)
    assert world.status.phase == Phase.SATISFIED, world.status.message
    assert world.status.unconfirmed == []


@pytest.mark.parametrize("out", ["cordoned", "down"])
def test_a_probe_never_leads_to_a_node_that_is_out(out: str) -> None:
    world = World(TABLE_3, on=["n6"], probes=True, spec={"mode": "Probe"})
    getattr(world, out).add("n1")
    world.run(60)
    assert world.moves == ["n2"]


def test_after_the_user_moved_a_probe_believes_only_what_is_new() -> None:
    """The nearest node of before is not the nearest one any more, whatever old votes say."""
    spec = {"mode": "Probe", "threshold": Limit(p95_ms=100)}
    world = World({"n1": 0.5, "n2": 10, "n3": 200}, on=["n1"], probes=True, spec=spec).run(60)
    assert world.held() == ["n1"]
    world.rtts = {"n1": 200, "n2": 10, "n3": 0.5}
    # As if the mean of n3 still were full of what was measured before.
    world.faded = {"n3": 70.0}
    world.over_since = world.now - 2.5
    world.step()
    world.over_since = None
    world.run(60)
    assert (world.status.search.number, world.held()) == (2, ["n3"])


@pytest.mark.parametrize(("age", "moves"), [(0.9, True), (1.1, False)])
def test_above_the_threshold_only_probes_of_its_second_half_count(age: float, moves: bool) -> None:
    spec = {"mode": "Probe", "threshold": Limit(p95_ms=100)}
    world = World({"n1": 200, "n2": 10}, on=["n1"], probes=True, spec=spec).run(0.1)
    world.status.search.ended_at = stamp(world.now)
    world.status.search.futile = False
    world.status.sentinels, world.status.decision = [], None
    world.over_since = world.now - 2.0
    seen = world.seen()
    probed = {
        node: msgspec.structs.replace(value, last=world.now - age)
        for node, value in seen.probed.items()
    }
    planned = plan(msgspec.structs.replace(seen, probed=probed), world.now)
    assert planned.status.search.reason == "Threshold"
    assert bool(planned.create) is moves


def test_a_probe_waits_until_reports_confirm_it() -> None:
    world = World(TABLE_3, on=["n6"], probes=True, silent={"n1"}, spec={"mode": "Probe"})
    world.run(60)
    assert world.why()["n1"] == "Unconfirmed"
    assert world.held() == ["n6"] or TABLE_3[world.held()[0]] < 100
    assert world.status.search.ended_at is not None


# What is late: the kind of vote, its node, in which second; and where the replica begins.
LATE: dict[str, tuple[str, dict[tuple[str, str, int], float]]] = {
    "the first probe of the nearest node, and the replica is on the next": (
        "n2",
        {("probe", "n1", 0): 30.0},
    ),
    "the first probe of the nearest node, and the replica is far": (
        "n6",
        {("probe", "n1", 0): 30.0},
    ),
    "the first probe of the nearest node, and the replica is there": (
        "n1",
        {("probe", "n1", 0): 30.0},
    ),
    "probes of the nearest node after the replica is there": (
        "n4",
        {("probe", "n1", second): 30.0 for second in range(2, 20)},
    ),
    "the first report of the new replica": (
        "n2",
        {("report", "n1", second): 40.0 for second in (2, 3)},
    ),
}


@pytest.mark.parametrize("sentence", LATE)
def test_what_is_late_costs_a_probe_no_move(sentence: str) -> None:
    """A busy machine lets one answer wait for a core; the way is no longer for that."""
    first, late = LATE[sentence]
    world = World(TABLE_3, on=[first], probes=True, spec={"mode": "Probe"})
    began = int(world.now)
    world.late = lambda kind, node, second: late.get((kind, node, second - began), 0.0)
    world.run(60)
    assert world.moves == ["n1"] * (first != "n1")
    assert world.status.search.ended_at is not None
    assert "Unconfirmed" not in world.why().values()


def test_of_many_nodes_the_nearest_is_found_also_where_it_was_reported_long_ago() -> None:
    """A client may send ten reports a second: of 100 nodes each is reported every ten seconds."""
    rtts = {f"n{number}": 100.0 + number for number in range(100)} | {"n50": 5.0}
    world = World(rtts, on=["n1"], probes=True, spec={"mode": "Probe"})
    probed = {
        node: msgspec.structs.replace(value, last=world.now - age / 10)
        for age, (node, value) in enumerate(world.probed().items())
    }
    planned = plan(msgspec.structs.replace(world.seen(), probed=probed), world.now)
    assert [each.nodes for each in planned.create] == [["n50"]]


def test_when_it_began_and_ended_is_written() -> None:
    world = World(FOUR, on=["n2"])
    world.step()
    assert world.status.search.began_at == stamp(world.now)
