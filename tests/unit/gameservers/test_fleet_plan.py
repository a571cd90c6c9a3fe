"""How many servers a fleet has, and which go first, as sentences."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.api.games import Allocation, GameType, Operation
from edgewise.gameservers import names
from edgewise.gameservers.fleet.observe import see_server
from edgewise.gameservers.fleet.plan import (
    MOST_AT_ONCE,
    FleetObserved,
    FleetPlan,
    ListSeen,
    ServerSeen,
    plan_fleet,
    shrink,
)
from edgewise.gameservers.gametype.observe import fleet_seen
from edgewise.runtime.caching.cache import Cache
from edgewise.workloads.deadlines import stamp
from tests.unit.gameservers.making import NOW, fleet, server


def one(number: int, state: str = "Ready", **facts: Any) -> ServerSeen:
    facts.setdefault("created", stamp(NOW + number))
    facts.setdefault("version", "v1")
    return ServerSeen(name=f"arena-{number}", uid=f"s{number}", number=number, state=state, **facts)


def planned(
    servers: list[ServerSeen],
    replicas: int,
    numbers: tuple[int, int] = (100, 200),
    status: dict[str, Any] | None = None,
    **more: Any,
) -> FleetPlan:
    spec = {"scaling": {"replicas": replicas, **more.pop("scaling", {})}, **more.pop("spec", {})}
    found = fleet({"next": 200, **(status or {})}, **spec, deleting=more.pop("deleting", False))
    observed = FleetObserved(fleet=found, servers=servers, version="v1", numbers=numbers, **more)
    return plan_fleet(observed, NOW)


def test_a_fleet_makes_what_is_missing() -> None:
    assert planned([one(1)], 3).create == (100, 101)


def test_numbers_are_reserved_before_they_are_used() -> None:
    plan = planned([], 3, numbers=(0, 0))
    assert plan.reserve == (200, 219)
    assert plan.create == ()
    assert plan.more


def test_a_block_that_another_operator_took_is_not_used() -> None:
    plan = planned([], 3, numbers=(198, 199))
    assert plan.reserve == (200, 219)


def test_the_rest_of_a_block_is_used_first() -> None:
    plan = planned([], 3, numbers=(199, 200))
    assert plan.reserve == (199, 218)


def test_a_large_fleet_is_made_in_several_passes() -> None:
    plan = planned([], 1000, numbers=(0, 1000))
    assert len(plan.create) == MOST_AT_ONCE
    assert plan.more


COUNTED = {
    "one that is deleted": one(1, deleting=True),
    "one that is asked to end": one(1, "Draining"),
    "one that ended": one(1, "Shutdown"),
    "one that is not well": one(1, "Unhealthy"),
    "one that a person retires": one(1, operation=Operation.RETIRE),
    "one that is taken to be removed": one(1, retired=True),
}


@pytest.mark.parametrize("sentence", COUNTED)
def test_a_fleet_replaces_at_once(sentence: str) -> None:
    assert planned([COUNTED[sentence]], 1).create == (100,)


def test_what_is_broken_goes() -> None:
    plan = planned([one(1, "Unhealthy", trouble="game: Error"), one(2, "Shutdown"), one(3)], 3)
    assert [each.number for each in plan.delete] == [1, 2]
    assert plan.failed == "game: Error"


def test_the_second_failure_in_a_row_is_given_a_rest() -> None:
    before = {"failures": {"count": 1, "until": stamp(NOW - 1), "version": "v1"}}
    plan = planned([one(1, "Unhealthy")], 1, status=before)
    assert plan.create == ()
    assert plan.deadline == NOW + 1
    assert [each.number for each in plan.delete] == [1]


def test_failures_of_another_version_do_not_count() -> None:
    before = {"failures": {"count": 9, "until": stamp(NOW + 200), "version": "v0"}}
    assert planned([], 1, status=before).create == (100,)


def test_a_game_that_ends_by_itself_is_no_failure() -> None:
    before = {"failures": {"count": 1, "until": stamp(NOW - 1), "version": "v1"}}
    assert planned([one(1, "Shutdown")], 1, status=before).create == (100,)


ORDER: dict[str, tuple[list[ServerSeen], dict[str, Any], list[int]]] = {
    "those that are not ready go before those that are": (
        [one(1), one(2, "Starting"), one(3)],
        {},
        [2],
    ),
    "a higher deletionPriority goes first": ([one(1), one(2, priority=5)], {}, [2]),
    "those that allow it go first": ([one(1), one(2, allowed=True)], {}, [2]),
    "unless the fleet does not prioritize them": (
        [one(1), one(2, allowed=True)],
        {"scaling": {"replicas": 0, "prioritizeAllowed": False}},
        [1],
    ),
    "of a packed fleet the emptiest node becomes empty": (
        [one(1, node="a"), one(2, node="a"), one(3, node="b")],
        {},
        [3],
    ),
    "of a distributed fleet the fullest node loses one": (
        [one(1, node="b"), one(2, node="a"), one(3, node="a")],
        {"scheduling": "Distributed"},
        [2],
    ),
    "oldest first": ([one(2), one(1), one(3)], {}, [1]),
    "newest first": (
        [one(2), one(1), one(3)],
        {"scaling": {"replicas": 0, "agePriority": "newest_first"}},
        [3],
    ),
    "allocated ones go last": ([one(1, allocated=True, allowed=True), one(2)], {}, [2]),
}


@pytest.mark.parametrize("sentence", ORDER)
def test_shrinking(sentence: str) -> None:
    servers, spec, expected = ORDER[sentence]
    chosen = shrink(fleet(**spec), servers, len(expected))
    assert [each.number for each in chosen] == expected


def test_all_go_in_one_pass_and_idle_ones_are_taken_first() -> None:
    servers = [one(number, allocated=number == 2) for number in range(10)]
    plan = planned(servers, 0)
    assert len(plan.retire) == 9
    assert [each.number for each in plan.delete] == [2]


def test_what_was_taken_before_a_crash_is_deleted_after_it() -> None:
    plan = planned([one(1, retired=True), one(2, "Draining", retired=True)], 0)
    assert [each.number for each in plan.delete] == [1]


def test_those_above_the_number_are_marked() -> None:
    plan = planned([one(1, allocated=True)], 0, spec={"overflow": {"labels": {"over": "yes"}}})
    assert [each.number for each in plan.mark] == [1]


def test_a_fleet_that_is_deleted_goes_when_its_servers_have_gone() -> None:
    assert not planned([one(1, deleting=True)], 3, deleting=True).done
    assert planned([], 3, deleting=True).done
    assert not planned([], 3, deleting=True, lists=[ListSeen(name="a.retired")]).done


def test_a_fleet_that_is_deleted_takes_its_idle_servers_and_asks_the_others() -> None:
    servers = [one(1), one(2, retired=True), one(3, allocated=True), one(4, "Draining")]
    plan = planned(servers, 3, deleting=True)
    assert [each.number for each in plan.retire] == [1]
    assert [each.number for each in plan.delete] == [2, 3, 4]
    plan = planned(servers, 3, deleting=True, namespace_ends=True)
    assert not plan.retire
    assert len(plan.delete) == 4


def test_a_list_of_servers_is_forgotten_when_all_of_them_are_gone() -> None:
    lists = [ListSeen(name="a.retired", over=True), ListSeen(name="b.retired")]
    for plan in (planned([], 0, lists=lists), planned([one(1)], 0, deleting=True, lists=lists)):
        assert [each.name for each in plan.forget] == ["a.retired"]


def test_nothing_is_made_in_a_namespace_that_ends() -> None:
    assert planned([], 3, namespace_ends=True).create == ()


def test_the_status_counts() -> None:
    status = planned([one(1), one(2, "Allocated", allocated=True), one(3, "Starting")], 3).status
    assert (status.replicas, status.ready, status.allocated, status.starting) == (3, 1, 1, 1)


def test_a_server_that_ends_and_has_its_match_still_is_one_server_to_its_game() -> None:
    retired = one(0, "Draining", allocated=True, operation=Operation.RETIRE)
    taken = [one(number, "Allocated", allocated=True) for number in (1, 2, 3)]
    found = fleet(msgspec.to_builtins(planned([retired, *taken], 3).status))
    spec = {"fleetSpec": msgspec.to_builtins(found.spec)}
    game = msgspec.convert({"metadata": {"name": "arena"}, "spec": spec}, GameType)
    assert fleet_seen(found, game).servers == 4


def test_that_servers_fail_is_taken_back_though_nothing_else_happens() -> None:
    before = {"failures": {"count": 3, "until": stamp(NOW - 100), "version": "v1"}}
    plan = planned([one(1)], 1, status=before)
    assert plan.deadline == NOW + 500
    before["failures"]["until"] = stamp(NOW - 600)
    plan = planned([one(1)], 1, status=before)
    assert plan.status.failures is None
    (failing,) = (each for each in plan.status.conditions if each.type == "Failing")
    assert failing.status == "False"
    assert plan.deadline is None


def test_static_ports_on_too_few_nodes_are_why_servers_are_missing() -> None:
    def enough(servers: list[ServerSeen], nodes: int | None) -> tuple[str, str]:
        status = planned(servers, 2, nodes=nodes).status
        (found,) = (each for each in status.conditions if each.type == "Enough")
        return found.reason, found.message

    reason, words = enough([one(1), one(2, "Pending")], 1)
    assert reason == "TooFewNodes"
    assert "spec.spec.ports has one with the policy Static" in words
    assert "once on each node, and 1 take pods" in words
    assert enough([one(1), one(2, "Pending")], 2)[0] == "Starting"
    assert enough([one(1), one(2, "Pending")], None)[0] == "Starting"
    assert enough([one(1), one(2)], 1)[0] == "AllReady"


def test_a_changed_spec_is_for_new_servers_only_and_says_so() -> None:
    status = planned([one(1, version="v0"), one(2)], 2).status
    (mixed,) = (each for each in status.conditions if each.type == "Mixed")
    assert "new servers only" in mixed.message


@pytest.mark.parametrize(("label", "number"), [("17", 17), ("9" * 40, -1), ("x", -1), ("", -1)])
def test_a_number_that_nobody_gave_is_none(label: str, number: int) -> None:
    labelled = server()
    labelled.metadata.labels = {names.NUMBER: label}
    assert see_server(labelled, Cache(Allocation)).number == number


SERVERS = st.lists(
    st.builds(
        lambda number, state, allocated, priority: one(
            number, state, allocated=allocated, priority=priority
        ),
        st.integers(0, 10_000),
        st.sampled_from(["", "Ready", "Starting", "Allocated", "Reserved"]),
        st.booleans(),
        st.integers(0, 2),
    ),
    unique_by=lambda each: each.number,
    max_size=30,
)


@given(SERVERS, st.integers(0, 30))
def test_a_fleet_never_removes_more_than_it_must_nor_an_allocated_one_before_an_idle_one(
    servers: list[ServerSeen], replicas: int
) -> None:
    plan = planned(servers, replicas)
    gone = [*plan.retire, *plan.delete]
    assert len(gone) == max(0, len(servers) - replicas)
    if any(each.allocated for each in gone):
        left = [each for each in servers if each not in gone]
        assert all(each.allocated for each in left)
    assert not any(each.allocated for each in plan.retire)
