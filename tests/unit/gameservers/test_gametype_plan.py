"""The plan of a game by itself: fleets that are seen, and what follows from them.

A row is a sentence, what is seen, and what the plan makes of it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.api.games import (
    FleetSpec,
    GameType,
    GameTypeSpec,
    GameTypeStatus,
    Rollout,
    RolloutPhase,
    Scaling,
    ServerSpec,
    Sidecar,
    Strategy,
    StrategyType,
)
from edgewise.gameservers.gametype.observed import FleetSeen, GameSeen
from edgewise.gameservers.gametype.plan import (
    PROGRESSING,
    GamePlan,
    fleet_names,
    plan_game,
    plan_removal,
    share_of,
)
from edgewise.gameservers.outgoing import Outgoing, outgoing_of
from edgewise.gameservers.versions import version_of
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.conditions import Finding
from edgewise.workloads.deadlines import stamp

NOW = 1_800_000_000.0
POD = {"containers": [{"name": "game", "image": "arena:1"}]}


def game(
    replicas: int = 4,
    *,
    rollout: Rollout | None = None,
    strategy: Strategy | None = None,
    **status: Any,
) -> GameType:
    spec = FleetSpec(
        scaling=Scaling(replicas=replicas),
        spec=ServerSpec(pod=POD),
        strategy=strategy or Strategy(),
    )
    return GameType(
        metadata=ObjectMeta(name="arena", namespace="play", uid="g1", generation=1),
        spec=GameTypeSpec(fleet_spec=spec, rollout=rollout or Rollout()),
        status=GameTypeStatus(**status),
    )


def fleet(version: str, wanted: int = 4, **fields: Any) -> FleetSeen:
    values: dict[str, Any] = {
        "name": f"arena-{version}",
        "version": version,
        "created": NOW - 1000,
        "wanted": wanted,
        **fields,
    }
    values.setdefault("servers", sum(values.get(name, 0) for name in ("ready", "starting", "busy")))
    return FleetSeen(**values)


def planned(seen_game: GameType, *fleets: FleetSeen, version: str = "v2") -> GamePlan:
    taken = frozenset(each.name for each in fleets)
    return plan_game(GameSeen(game=seen_game, version=version, fleets=fleets, taken=taken), NOW)


def numbers(plan: GamePlan) -> dict[str, int]:
    return {each.name: each.replicas for each in plan.change if each.replicas is not None}


def marks(plan: GamePlan) -> dict[str, Outgoing]:
    return {each.name: each.outgoing for each in plan.change if each.outgoing is not None}


def finding(plan: GamePlan, name: str) -> Finding:
    return next(each for each in plan.findings if each.type == name)


def test_the_first_version_gets_a_fleet_of_all_replicas_and_serves_at_once() -> None:
    plan = planned(game(3))
    assert plan.create is not None
    assert (plan.create.name, plan.create.replicas) == ("arena-v2", 3)
    assert plan.current == "arena-v2"
    assert plan.phase is RolloutPhase.PROGRESSING


def test_a_new_version_begins_with_the_surge_and_the_old_fleet_is_untouched() -> None:
    plan = planned(game(current_fleet_name="arena-v1"), fleet("v1", ready=4))
    assert plan.create is not None
    assert plan.create.replicas == 1, "25 % of 4"
    assert plan.current == "arena-v1"
    assert plan.change == ()


def test_scaling_alone_makes_no_new_fleet() -> None:
    seen = game(9, current_fleet_name="arena-v2", version="v2", phase="Steady")
    plan = planned(seen, fleet("v2", ready=4))
    assert plan.create is None
    assert numbers(plan) == {"arena-v2": 9}
    assert plan.phase is RolloutPhase.STEADY


def test_allocations_move_when_the_new_fleet_is_ready() -> None:
    seen = game(current_fleet_name="arena-v1", version="v2", progress_since=stamp(NOW - 5))
    plan = planned(seen, fleet("v1", ready=4), fleet("v2", wanted=1, ready=1))
    assert plan.current == "arena-v2"
    assert plan.phase is RolloutPhase.DRAINING
    assert numbers(plan) == {"arena-v1": 2}, "one is ready anew, one may be missing"
    assert marks(plan) == {"arena-v1": Outgoing.IDLE}


def test_a_ready_percent_lets_allocations_move_before_all_are_ready() -> None:
    rollout = Rollout(ready_percent=50)
    strategy = Strategy(max_surge="100%")
    seen = game(rollout=rollout, strategy=strategy, current_fleet_name="arena-v1")
    half = planned(seen, fleet("v1", ready=4), fleet("v2", ready=2, starting=2))
    less = planned(seen, fleet("v1", ready=4), fleet("v2", ready=1, starting=3))
    assert (half.current, less.current) == ("arena-v2", "arena-v1")


def test_a_status_of_an_older_spec_moves_nothing() -> None:
    seen = game(current_fleet_name="arena-v1")
    plan = planned(seen, fleet("v1", ready=4), fleet("v2", wanted=1, ready=1, settled=False))
    assert plan.current == "arena-v1"


def test_only_the_newest_fleet_grows() -> None:
    seen = game(10, current_fleet_name="arena-v1")
    plan = planned(seen, fleet("v1", ready=4), fleet("v2", wanted=1, starting=1))
    assert numbers(plan) == {"arena-v2": 9}, "six are missing, and three are the surge"


def test_all_servers_allocated_do_not_keep_a_new_version_from_coming() -> None:
    plan = planned(game(current_fleet_name="arena-v1"), fleet("v1", busy=4))
    assert plan.create is not None
    assert plan.create.replicas == 1
    after = planned(
        game(current_fleet_name="arena-v1"), fleet("v1", busy=4), fleet("v2", 1, ready=1)
    )
    assert after.current == "arena-v2"
    assert marks(after) == {"arena-v1": Outgoing.ALL}, "they are asked, and have their timeout"
    assert numbers(after) == {"arena-v1": 0}


def test_before_the_soft_deadline_allocated_servers_are_left_alone() -> None:
    rollout = Rollout(soft_deadline="1h")
    seen = game(rollout=rollout, current_fleet_name="arena-v2", version="v2")
    old = fleet("v1", busy=3, outgoing=Outgoing.IDLE, since=NOW - 60, wanted=3)
    plan = planned(seen, old, fleet("v2", ready=1, wanted=2))
    assert "arena-v1" not in numbers(plan) | marks(plan)
    assert plan.deadline == NOW - 60 + 3600


def test_after_the_soft_deadline_all_are_asked() -> None:
    rollout = Rollout(soft_deadline="1h")
    seen = game(rollout=rollout, current_fleet_name="arena-v2", version="v2")
    old = fleet("v1", busy=3, outgoing=Outgoing.IDLE, since=NOW - 3600, wanted=3)
    plan = planned(seen, old, fleet("v2", ready=1, wanted=2))
    assert (numbers(plan)["arena-v1"], marks(plan)["arena-v1"]) == (0, Outgoing.ALL)
    assert plan.end == ()


def test_after_the_hard_deadline_all_are_ended() -> None:
    rollout = Rollout(soft_deadline="1h", hard_deadline="2h")
    seen = game(rollout=rollout, current_fleet_name="arena-v2", version="v2")
    old = fleet("v1", busy=1, outgoing=Outgoing.ALL, since=NOW - 7200, wanted=0)
    plan = planned(seen, old, fleet("v2", ready=3))
    assert plan.end == ("arena-v1",)
    assert marks(plan) == {"arena-v1": Outgoing.NOW}


def test_a_game_that_has_no_name_left_for_its_fleet_says_so() -> None:
    taken = frozenset(fleet_names("arena", "v1"))
    plan = plan_game(GameSeen(game=game(), version="v1", fleets=(), taken=taken), NOW)
    assert plan.create is None
    (said,) = (each for each in plan.findings if each.type == PROGRESSING)
    assert (said.holds, said.reason) == (False, "NamesTaken")
    assert "arena-v1 to arena-v19" in said.message


def test_what_was_asked_is_not_taken_back_when_a_deadline_is_moved() -> None:
    rollout = Rollout(soft_deadline="10h")
    seen = game(rollout=rollout, current_fleet_name="arena-v2", version="v2")
    old = fleet("v1", busy=1, outgoing=Outgoing.ALL, since=NOW - 7200, wanted=0)
    assert "arena-v1" not in marks(planned(seen, old, fleet("v2", ready=4)))


def test_an_empty_old_fleet_goes() -> None:
    seen = game(current_fleet_name="arena-v2", version="v2")
    old = fleet("v1", wanted=0, outgoing=Outgoing.ALL, since=NOW - 5)
    assert planned(seen, old, fleet("v2", ready=4)).delete == ("arena-v1",)
    unsure = msgspec.structs.replace(old, settled=False)
    assert planned(seen, unsure, fleet("v2", ready=4)).delete == ()


STUCK = fleet("v2", wanted=1, starting=1, trouble="ImagePullBackOff: arena:2 is not there")


def test_a_version_that_never_becomes_ready_stops_with_its_reason() -> None:
    seen = game(current_fleet_name="arena-v1", version="v2", progress_since=stamp(NOW - 600))
    plan = planned(seen, fleet("v1", ready=2, busy=2), STUCK)
    assert plan.phase is RolloutPhase.STOPPED
    assert plan.current == "arena-v1"
    assert plan.change == (), "the old fleet is untouched"
    said = finding(plan, PROGRESSING)
    assert (said.holds, said.reason) == (False, "ProgressDeadlineExceeded")
    assert "arena-v2 has 0 of 1 ready server after 10m" in said.message
    assert "ImagePullBackOff" in said.message


def test_people_are_told_once_that_a_version_stopped_and_once_that_it_is_there() -> None:
    late = stamp(NOW - 600)
    for phase, told in (("Progressing", "RolloutStopped"), ("Stopped", None), ("", None)):
        seen = game(current_fleet_name="arena-v1", version="v2", progress_since=late, phase=phase)
        plan = planned(seen, fleet("v1", ready=4), STUCK)
        assert (plan.tell[0] if plan.tell else None) == told
    for phase, told in (("Draining", "RolloutComplete"), ("Steady", None)):
        seen = game(current_fleet_name="arena-v2", version="v2", phase=phase)
        plan = planned(seen, fleet("v2", ready=4))
        assert (plan.tell[0] if plan.tell else None) == told


def test_before_the_progress_deadline_it_only_waits() -> None:
    seen = game(current_fleet_name="arena-v1", version="v2", progress_since=stamp(NOW - 599))
    plan = planned(seen, fleet("v1", ready=4), STUCK)
    assert plan.phase is RolloutPhase.PROGRESSING
    assert plan.deadline == NOW + 1
    assert "ImagePullBackOff" in finding(plan, PROGRESSING).message


def test_while_it_is_stopped_the_old_fleet_is_what_can_be_scaled() -> None:
    seen = game(8, current_fleet_name="arena-v1", version="v2", progress_since=stamp(NOW - 600))
    assert numbers(planned(seen, fleet("v1", ready=4), STUCK)) == {"arena-v1": 8}


def test_a_stopped_version_that_becomes_ready_after_all_goes_on() -> None:
    seen = game(current_fleet_name="arena-v1", version="v2", progress_since=stamp(NOW - 9999))
    plan = planned(seen, fleet("v1", ready=4), fleet("v2", wanted=1, ready=1))
    assert plan.current == "arena-v2"


def test_a_steady_fleet_that_loses_a_server_is_no_stopped_rollout() -> None:
    seen = game(
        current_fleet_name="arena-v2",
        version="v2",
        phase="Steady",
        progress_since=stamp(NOW - 9999),
    )
    assert planned(seen, fleet("v2", ready=3, starting=1)).phase is RolloutPhase.STEADY


def test_a_third_version_replaces_the_unfinished_one() -> None:
    seen = game(current_fleet_name="arena-v1", version="v2", progress_since=stamp(NOW - 60))
    plan = planned(seen, fleet("v1", ready=4), STUCK, version="v3")
    assert plan.create is not None
    assert plan.create.name == "arena-v3"
    assert plan.current == "arena-v1", "which nobody touches"
    assert marks(plan) == {"arena-v2": Outgoing.ALL}
    assert numbers(plan) == {"arena-v2": 0}
    assert plan.since == NOW


def test_back_to_the_first_finds_its_fleet() -> None:
    seen = game(current_fleet_name="arena-v2", version="v2")
    old = fleet("v1", wanted=1, busy=1, outgoing=Outgoing.IDLE, since=NOW - 60)
    plan = planned(seen, old, fleet("v2", wanted=4, ready=3), version="v1")
    assert plan.create is None
    assert plan.newest == "arena-v1"
    assert marks(plan) == {"arena-v1": Outgoing.NO}


def test_back_in_the_middle_of_a_rollout_ends_it_at_once() -> None:
    seen = game(current_fleet_name="arena-v1", version="v2")
    plan = planned(seen, fleet("v1", ready=4), STUCK, version="v1")
    assert plan.current == "arena-v1"
    assert marks(plan) == {"arena-v2": Outgoing.ALL}


def test_a_fleet_of_this_version_that_is_being_deleted_gets_a_successor() -> None:
    plan = planned(game(current_fleet_name="arena-v2"), fleet("v2", busy=2, deleting=True))
    assert plan.create is not None
    assert (plan.create.name, plan.create.replicas) == ("arena-v22", 4)


def test_paused_makes_no_new_fleet_but_can_be_scaled() -> None:
    seen = game(6, rollout=Rollout(paused=True), current_fleet_name="arena-v1")
    plan = planned(seen, fleet("v1", ready=4))
    assert plan.create is None
    assert numbers(plan) == {"arena-v1": 6}
    assert plan.phase is RolloutPhase.PAUSED


def test_a_paused_game_without_any_fleet_gets_its_first_one() -> None:
    plan = planned(game(3, rollout=Rollout(paused=True)))
    assert plan.create is not None
    assert plan.create.replicas == 3
    assert plan.phase is RolloutPhase.PROGRESSING


def test_paused_in_the_middle_moves_nothing() -> None:
    seen = game(rollout=Rollout(paused=True), current_fleet_name="arena-v1", version="v2")
    plan = planned(seen, fleet("v1", ready=4), fleet("v2", wanted=1, ready=1))
    assert (plan.change, plan.current, plan.phase) == ((), "arena-v1", RolloutPhase.PAUSED)


def test_recreate_ends_the_old_before_it_makes_the_new() -> None:
    strategy = Strategy(type=StrategyType.RECREATE)
    seen = game(strategy=strategy, current_fleet_name="arena-v1")
    first = planned(seen, fleet("v1", ready=4))
    assert first.create is not None
    assert first.create.replicas == 0
    moved = game(strategy=strategy, current_fleet_name="arena-v2", version="v2")
    old = fleet("v1", wanted=0, servers=1, outgoing=Outgoing.ALL, since=NOW)
    assert numbers(planned(moved, old, fleet("v2", wanted=0))) == {"arena-v2": 3}


def test_a_lost_status_takes_the_fleet_with_most_servers_for_the_current_one() -> None:
    plan = planned(game(), fleet("v1", ready=4), fleet("v2", wanted=1, starting=1))
    assert plan.current == "arena-v1"


def test_an_edited_fleet_is_put_right() -> None:
    seen = game(current_fleet_name="arena-v2", version="v2", phase="Steady")
    (change,) = planned(seen, fleet("v2", ready=4, alike=False)).change
    assert change.spec


def test_a_game_that_is_deleted_waits_for_its_fleets() -> None:
    seen = GameSeen(
        game=game(), version="v2", fleets=(fleet("v1", busy=1, deleting=True), fleet("v2", ready=4))
    )
    plan = plan_removal(seen)
    assert plan.delete == ("arena-v2",)
    assert plan.findings[0].message == "5 servers in 2 fleets must end first"
    assert plan_removal(msgspec.structs.replace(seen, fleets=())).findings == ()


def test_the_version_leaves_out_defaults_and_the_sidecar() -> None:
    plain = ServerSpec(pod=POD)
    assert version_of(plain) == version_of(ServerSpec(pod=POD, timeout="40m"))
    assert version_of(plain) == version_of(ServerSpec(pod=POD, sidecar=Sidecar(port=9000)))
    assert version_of(plain) != version_of(ServerSpec(pod=POD, timeout="41m"))


@pytest.mark.parametrize(
    ("given_", "whole", "up", "share"),
    [
        (2, 10, True, 2),
        ("25%", 10, True, 3),
        ("25%", 10, False, 2),
        ("3", 10, False, 3),
        ("much", 10, True, 0),
        ("9" * 5000, 10, True, 0),
        ("9" * 5000 + "%", 10, True, 0),
        (-1, 10, True, 0),
    ],
)
def test_shares(given_: int | str, whole: int, up: bool, share: int) -> None:
    assert share_of(given_, whole, up=up) == share


def test_a_mark_that_is_not_known_asks_nobody() -> None:
    assert outgoing_of({"games.edgewise.dev/outgoing": "Quickly"}) is Outgoing.IDLE


# All orders -----------------------------------------------------------------------------


class World:
    """Fleets that do what they are told, in steps that anything may come between."""

    def __init__(self, replicas: int, strategy: Strategy) -> None:
        self.game = game(replicas, strategy=strategy)
        self.version = "a"
        self.fleets: dict[str, FleetSeen] = {}
        self.broken: set[str] = set()

    def reconcile(self) -> GamePlan:
        seen = GameSeen(
            game=self.game,
            version=self.version,
            fleets=tuple(self.fleets.values()),
            taken=frozenset(self.fleets),
        )
        plan = plan_game(seen, NOW)
        if plan.create is not None:
            self.fleets[plan.create.name] = fleet(
                self.version, plan.create.replicas, name=plan.create.name
            )
        for change in plan.change:
            old = self.fleets[change.name]
            if change.replicas is not None and change.name != plan.newest:
                assert change.replicas <= old.wanted, "only the newest grows"
            self.fleets[change.name] = msgspec.structs.replace(
                old,
                wanted=old.wanted if change.replicas is None else change.replicas,
                outgoing=old.outgoing if change.outgoing is None else change.outgoing,
            )
        for name in plan.delete:
            assert self.fleets[name].servers == 0
            del self.fleets[name]
        self.game.status = msgspec.structs.replace(
            self.game.status,
            current_fleet_name=plan.current,
            version=self.version,
            phase=plan.phase.value,
            progress_since=stamp(NOW),
        )
        return plan

    def work(self) -> None:
        """Every fleet makes or removes idle servers, and what starts becomes ready."""
        for name, each in self.fleets.items():
            ready, busy = each.ready, each.busy
            have = ready + busy + each.starting
            starting = each.starting
            if each.wanted > have and not each.outgoing:
                starting += each.wanted - have
            elif each.wanted < have:
                excess = have - each.wanted
                starting, gone = max(0, starting - excess), min(starting, excess)
                ready = max(0, ready - (excess - gone))
            if each.version not in self.broken:
                ready, starting = ready + starting, 0
            self.fleets[name] = msgspec.structs.replace(
                each, ready=ready, starting=starting, servers=ready + starting + busy
            )

    def play(self) -> None:
        current = self.fleets.get(self.game.status.current_fleet_name)
        if current is not None and current.ready:
            self.fleets[current.name] = msgspec.structs.replace(
                current, ready=current.ready - 1, busy=current.busy + 1
            )

    def stop_playing(self) -> None:
        for name, each in self.fleets.items():
            if each.busy:
                self.fleets[name] = msgspec.structs.replace(
                    each, busy=each.busy - 1, servers=each.servers - 1
                )
                return

    def settle(self) -> GamePlan:
        for _ in range(40):
            while any(each.busy for each in self.fleets.values()):
                self.stop_playing()
            plan = self.reconcile()
            self.work()
        return plan


STEPS = st.lists(
    st.sampled_from(["work", "play", "stop", "plan", "a", "b", "c", "more", "fewer"]), max_size=40
)


@given(
    steps=STEPS,
    replicas=st.integers(0, 6),
    surge=st.sampled_from([0, 1, "25%", "100%"]),
    missing=st.sampled_from([0, 1, "50%"]),
    recreate=st.booleans(),
    broken=st.sampled_from(["", "c"]),
)
def test_whatever_happens_the_newest_version_wins_and_no_player_is_without_a_server(
    *,
    steps: list[str],
    replicas: int,
    surge: int | str,
    missing: int | str,
    recreate: bool,
    broken: str,
) -> None:
    kind = StrategyType.RECREATE if recreate else StrategyType.ROLLING_UPDATE
    world = World(replicas, Strategy(type=kind, max_surge=surge, max_unavailable=missing))
    world.broken = {broken}
    for step in steps:
        if step in "abc":
            world.version = step
        elif step in ("more", "fewer"):
            scaling = world.game.spec.fleet_spec.scaling
            scaling.replicas = max(0, scaling.replicas + (1 if step == "more" else -1))
        elif step == "plan":
            world.reconcile()
        else:
            {"work": world.work, "play": world.play, "stop": world.stop_playing}[step]()
    if world.version == broken:
        world.version = "a"
    plan = world.settle()
    wanted = world.game.spec.fleet_spec.scaling.replicas
    (only,) = world.fleets.values()
    assert (only.version, only.ready, only.outgoing) == (world.version, wanted, Outgoing.NO)
    assert plan.phase is RolloutPhase.STEADY
