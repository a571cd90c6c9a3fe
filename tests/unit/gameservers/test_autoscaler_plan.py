"""The plan of an autoscaler by itself: what is seen, and what follows from it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.api.games import (
    BufferPolicy,
    GameAutoscaler,
    GameAutoscalerSpec,
    PolicyType,
    ScalingPolicy,
    ScheduleEntry,
    SchedulePolicy,
    Stabilization,
    Sync,
    SyncType,
    WebhookPolicy,
)
from edgewise.gameservers.autoscaler import policies
from edgewise.gameservers.autoscaler.cron import BadCron, Cron, last_due, parse_cron, zone_of
from edgewise.gameservers.autoscaler.observed import (
    Counts,
    History,
    Said,
    ScalerSeen,
    Trouble,
    Wished,
)
from edgewise.gameservers.autoscaler.plan import ACTIVE, ANSWERED, LIMITED, ScalerPlan, plan_scaler
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.conditions import Finding

NOW = 1_800_000_000.0
WEBHOOK = ScalingPolicy(
    type=PolicyType.WEBHOOK, webhook=WebhookPolicy(url="https://scale.example/")
)


def buffer(size: int | str) -> ScalingPolicy:
    return ScalingPolicy(type=PolicyType.BUFFER, buffer=BufferPolicy(size=size))


def schedule(*entries: tuple[str, int], zone: str = "UTC") -> ScalingPolicy:
    written = [ScheduleEntry(cron=cron, replicas=number) for cron, number in entries]
    return ScalingPolicy(
        type=PolicyType.SCHEDULE, schedule=SchedulePolicy(zone=zone, entries=written)
    )


def scaler(policy: ScalingPolicy = WEBHOOK, **spec: Any) -> GameAutoscaler:
    return GameAutoscaler(
        metadata=ObjectMeta(name="scaler", namespace="play", uid="s1"),
        spec=GameAutoscalerSpec(game_name="arena", policy=policy, **spec),
    )


def planned(
    given_: GameAutoscaler, counts: Counts | None, *, now: float = NOW, **seen: Any
) -> ScalerPlan:
    return plan_scaler(ScalerSeen(scaler=given_, counts=counts, **seen), now)


def finding(plan: ScalerPlan, name: str) -> Finding:
    return next(each for each in plan.findings if each.type == name)


FOUR = Counts(replicas=4, ready=2, allocated=2)


def test_a_webhook_is_asked_at_once_and_then_every_interval() -> None:
    first = planned(scaler(), FOUR)
    assert first.ask == FOUR
    assert first.replicas is None
    assert first.deadline is None, "the answer wakes it"
    soon = planned(scaler(), FOUR, history=first.history, now=NOW + 29)
    later = planned(scaler(), FOUR, history=first.history, now=NOW + 30)
    assert (soon.ask, later.ask) == (None, FOUR)


def test_it_is_not_asked_twice_at_once_and_nobody_looks_again_before_the_answer() -> None:
    slow = planned(scaler(), FOUR, asking=True, history=History(evaluated=NOW - 100))
    assert (slow.ask, slow.deadline) == (None, None)
    answered = planned(scaler(), FOUR, answer=Said(4), history=History(evaluated=NOW - 100))
    assert answered.deadline == NOW + 30


def test_its_answer_is_followed() -> None:
    plan = planned(scaler(), FOUR, answer=Said(9))
    assert (plan.replicas, plan.decision) == (9, "Up")
    assert finding(plan, ANSWERED).holds is True


def test_scale_false_leaves_the_number() -> None:
    plan = planned(scaler(), FOUR, answer=Said(None))
    assert (plan.replicas, plan.decision) == (None, "Kept")
    assert finding(plan, ANSWERED).holds is True


def test_without_an_answer_the_number_stays_and_a_condition_says_why() -> None:
    plan = planned(scaler(), FOUR, answer=Trouble("TooLate", "it did not answer within 10 s"))
    assert plan.replicas is None
    said = finding(plan, ANSWERED)
    assert (said.holds, said.reason) == (False, "TooLate")
    assert said.message == "it did not answer within 10 s; the number stays"
    after = planned(scaler(), FOUR, history=plan.history, now=NOW + 1)
    assert finding(after, ANSWERED).reason == "TooLate", "until it answers again"


def test_a_policy_that_says_nothing_leaves_the_number_and_is_not_looked_at_all_the_time() -> None:
    empty = scaler(ScalingPolicy(type=PolicyType.BUFFER))
    plan = planned(empty, FOUR)
    assert (plan.replicas, plan.decision, plan.deadline) == (None, "BadPolicy", NOW + 30)
    assert finding(plan, ANSWERED).holds is False


def test_an_answer_that_came_while_another_was_asked_for_is_not_lost() -> None:
    assert planned(scaler(), FOUR, answer=Said(5), asking=True).replicas == 5


@pytest.mark.parametrize(
    ("sentence", "spec", "counts", "wish", "number", "limit"),
    [
        ("as wished", {}, FOUR, 7, 7, "AsWished"),
        ("zero on purpose", {}, Counts(replicas=4), 0, 0, "AsWished"),
        ("never below min", {"min": 3}, Counts(replicas=4), 0, 3, "Min"),
        ("never above max", {"max": 5}, FOUR, 9, 5, "Max"),
        ("never below allocated", {}, FOUR, 0, 2, "InUse"),
        (
            "never below allocated plus queued",
            {},
            Counts(replicas=4, allocated=2, queued=1),
            0,
            3,
            "InUse",
        ),
        (
            "who has a server keeps it whatever max is",
            {"max": 1},
            Counts(replicas=4, allocated=3, queued=9),
            0,
            3,
            "InUse",
        ),
        (
            "callers are served up to max",
            {"max": 5},
            Counts(replicas=4, allocated=3, queued=9),
            0,
            5,
            "InUse",
        ),
        ("never up by more than maxStep", {"max_step": 2}, FOUR, 100, 6, "MaxStep"),
        ("never down by more than maxStep", {"max_step": 1}, FOUR, 2, 3, "MaxStep"),
        ("down only as far as the step", {"max_step": 1}, Counts(replicas=9), 0, 8, "MaxStep"),
    ],
)
def test_bounds(
    *, sentence: str, spec: dict[str, Any], counts: Counts, wish: int, number: int, limit: str
) -> None:
    plan = planned(scaler(**spec), counts, answer=Said(wish))
    assert plan.desired == number, sentence
    assert finding(plan, LIMITED).reason == limit


def test_a_queued_allocation_is_demand_also_between_two_questions() -> None:
    asked = planned(scaler(), Counts(replicas=0))
    plan = planned(
        scaler(), Counts(replicas=0, queued=3), history=asked.history, asking=True, now=NOW + 1
    )
    assert (plan.replicas, plan.decision) == (3, "Up")


def test_trouble_does_not_keep_callers_waiting() -> None:
    plan = planned(scaler(), Counts(replicas=0, queued=1), answer=Trouble("Refused", "status 500"))
    assert plan.replicas == 1


def test_a_window_down_takes_the_most_that_was_wished_for() -> None:
    spec = scaler(stabilization=Stabilization(down="5m"))
    history = History(wishes=(Wished(NOW - 299, 8), Wished(NOW - 10, 3)))
    held = planned(spec, Counts(replicas=10), answer=Said(3), history=history)
    assert (held.desired, finding(held, LIMITED).reason) == (8, "Stabilizing")
    free = planned(spec, Counts(replicas=10), answer=Said(3), history=history, now=NOW + 1)
    assert free.desired == 3


def test_a_window_up_takes_the_least() -> None:
    spec = scaler(stabilization=Stabilization(up="1m"))
    history = History(wishes=(Wished(NOW - 30, 5),))
    assert planned(spec, Counts(replicas=4), answer=Said(9), history=history).desired == 5


def test_a_restart_of_the_operator_does_not_cut_a_window_short() -> None:
    spec = scaler(stabilization=Stabilization(down="5m"))
    assert planned(spec, Counts(replicas=10), answer=Said(3)).desired == 10


def test_a_game_that_is_not_there_is_named() -> None:
    plan = planned(scaler(), None)
    said = finding(plan, ACTIVE)
    assert (said.holds, said.reason) == (False, "NoSuchGame")
    assert said.message == "spec.gameName: there is no GameType arena in this namespace"
    assert plan.ask is None


def test_of_two_autoscalers_the_younger_does_nothing() -> None:
    plan = planned(scaler(), FOUR, rival="first", answer=Said(9))
    assert plan.replicas is None
    assert "spec.gameName: first scales arena already" in finding(plan, ACTIVE).message


def test_a_game_that_goes_is_left_alone() -> None:
    assert planned(scaler(buffer(5)), FOUR, going=True).replicas is None


@pytest.mark.parametrize(
    ("size", "counts", "number"),
    [
        (3, Counts(replicas=0, allocated=2), 5),
        (3, Counts(replicas=0, allocated=2, queued=4), 9),
        ("20%", Counts(replicas=0, allocated=8), 10),
        ("20%", Counts(replicas=0), 1),
        ("50%", Counts(replicas=0, allocated=3), 6),
    ],
)
def test_a_buffer_keeps_so_many_free(size: int | str, counts: Counts, number: int) -> None:
    assert planned(scaler(buffer(size)), counts).desired == number


@pytest.mark.parametrize("size", [-1, "20", "0%", "100%", "many%", "9999%", "²%"])
def test_a_buffer_that_cannot_be_is_named(size: int | str) -> None:
    plan = planned(scaler(buffer(size)), FOUR)
    assert plan.replicas is None
    said = finding(plan, ANSWERED)
    assert said.reason == "BadPolicy"
    assert "policy.buffer.size" in said.message


def test_onchange_evaluates_when_the_counts_change_and_at_most_once_a_second() -> None:
    spec = scaler(buffer(2), sync=Sync(type=SyncType.ON_CHANGE))
    first = planned(spec, Counts(replicas=2))
    more = Counts(replicas=2, allocated=1)
    soon = planned(spec, more, history=first.history, now=NOW + 0.5)
    assert (soon.replicas, soon.deadline) == (None, NOW + 1)
    assert planned(spec, more, history=first.history, now=NOW + 1).replicas == 3


# Schedules ------------------------------------------------------------------------------


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("cron", "zone", "now", "due"),
    [
        ("0 18 * * *", "UTC", "2026-11-17T18:00:00", "2026-11-17T18:00:00"),
        ("0 18 * * *", "UTC", "2026-11-17T17:59:59", "2026-11-16T18:00:00"),
        ("0 18 * * FRI", "UTC", "2026-11-17T12:00:00", "2026-11-13T18:00:00"),
        ("0 18 * * 7", "UTC", "2026-11-17T12:00:00", "2026-11-15T18:00:00"),
        ("*/15 9-17 * * 1-5", "UTC", "2026-11-17T09:20:00", "2026-11-17T09:15:00"),
        ("0 0 1 1 *", "UTC", "2026-11-17T09:20:00", "2026-01-01T00:00:00"),
        ("0 0 29 2 *", "UTC", "2027-11-17T00:00:00", "2024-02-29T00:00:00"),
        ("0 0 13 * FRI", "UTC", "2026-11-17T00:00:00", "2026-11-13T00:00:00"),
        ("0 18 * * *", "Europe/Lisbon", "2026-07-01T17:30:00", "2026-07-01T17:00:00"),
        ("0 18 * * *", "Europe/Lisbon", "2026-12-01T18:30:00", "2026-12-01T18:00:00"),
        # The clock goes from 01:00 to 02:00 and this hour is left out: an hour later.
        ("30 1 * * *", "Europe/Lisbon", "2026-03-29T02:00:00", "2026-03-29T01:30:00"),
        # It goes back from 02:00 to 01:00: the first of the two.
        ("30 1 * * *", "Europe/Lisbon", "2026-10-25T12:00:00", "2026-10-25T00:30:00"),
        # Also while the second one lasts.
        ("30 1 * * *", "Europe/Lisbon", "2026-10-25T01:45:00", "2026-10-25T00:30:00"),
    ],
)
def test_when_a_cron_expression_last_came_due(cron: str, zone: str, now: str, due: str) -> None:
    assert last_due(parse_cron(cron), zone_of(zone), at(now)) == at(due)


def day_by_day(cron: Cron, zone: ZoneInfo, now: float) -> float | None:
    """The same, minute after minute of every day: right, and far too slow."""
    today = datetime.fromtimestamp(now, UTC).astimezone(zone).replace(tzinfo=None)
    for back in range(400):
        day = today - timedelta(days=back)
        if not cron.matches(day):
            continue
        for hour in cron.hours:
            for minute in cron.minutes:
                due = day.replace(hour=hour, minute=minute, second=0, microsecond=0, tzinfo=zone)
                if due.timestamp() <= now:
                    return due.timestamp()
    return None


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    return st.one_of(
        st.just("*"), numbers.map(str), st.integers(1, 7).map(lambda step: f"*/{step}")
    )


@given(
    st.tuples(fields(0, 59), fields(0, 23), fields(1, 28), fields(1, 12), fields(0, 6)),
    st.sampled_from(("UTC", "Europe/Lisbon", "Australia/Lord_Howe", "Pacific/Apia")),
    # Around changes of the clock, and a day that Samoa left out.
    st.sampled_from((1_792_890_000, 1_774_746_000, 1_325_239_200, 1_791_043_200)),
    st.integers(-100_000, 100_000),
)
def test_what_came_due_last_is_found_by_looking_at_every_minute_too(
    cron: tuple[str, ...], zone: str, moment: int, off: int
) -> None:
    read, where, now = parse_cron(" ".join(cron)), zone_of(zone), float(moment + off)
    slow = day_by_day(read, where, now)
    assert slow is None or last_due(read, where, now) == slow


def test_a_schedule_is_worked_out_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def counted(cron: Cron, zone: ZoneInfo, now: float) -> float | None:
        asked.append(now)
        return last_due(cron, zone, now)

    monkeypatch.setattr(policies, "last_due", counted)
    policy = SchedulePolicy(entries=[ScheduleEntry(cron="7 7 7 7 *", replicas=7)] * 64)
    for second in range(60):
        assert policies.scheduled(policy, 1_800_000_000.0 + second) == 7
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("size", "counts"),
    [
        ("99%", Counts(replicas=5000, allocated=5000)),
        (2_000_000_000, Counts(replicas=3)),
        (1, Counts(replicas=3, queued=50_000)),
    ],
)
def test_no_number_is_wished_for_that_the_game_would_refuse(
    size: int | str, counts: Counts
) -> None:
    found = plan_scaler(ScalerSeen(scaler=scaler(buffer(size)), counts=counts), NOW)
    assert found.replicas == 10_000
    assert any(each.type == LIMITED and each.holds for each in found.findings)


def test_one_that_never_comes_due() -> None:
    assert last_due(parse_cron("0 0 31 2 *"), zone_of("UTC"), NOW) is None


@pytest.mark.parametrize(
    "text",
    [
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "5-1 * * * *",
        "*/0 * * * *",
        "a * * * *",
        "1,, * * * *",
        "-1 * * * *",
        "٣ * * * *",
        "* * * FOO *",
    ],
)
def test_what_is_no_cron_expression(text: str) -> None:
    with pytest.raises(BadCron):
        parse_cron(text)


@pytest.mark.parametrize("zone", ["Nowhere", "../../etc/passwd", "", "/etc/localtime"])
def test_what_is_no_zone(zone: str) -> None:
    with pytest.raises(BadCron):
        zone_of(zone)


def test_the_entry_that_came_due_last_counts() -> None:
    policy = schedule(("0 18 * * *", 50), ("0 2 * * *", 5), zone="UTC")
    evening = planned(scaler(policy), Counts(replicas=1), now=at("2026-11-17T20:00:00"))
    morning = planned(scaler(policy), Counts(replicas=1), now=at("2026-11-17T09:00:00"))
    assert (evening.desired, morning.desired) == (50, 5)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (schedule(("0 25 * * *", 1)), "policy.schedule.entries[0].cron"),
        (schedule(("0 2 * * *", 1), zone="Mars/Base"), "Mars/Base"),
        (schedule(("0 0 31 2 *", 1)), "ever comes due"),
    ],
)
def test_a_schedule_that_cannot_be_is_named(policy: ScalingPolicy, words: str) -> None:
    plan = planned(scaler(policy), FOUR)
    assert plan.replicas is None
    assert words in finding(plan, ANSWERED).message


# Whatever comes -------------------------------------------------------------------------

ANSWERS = st.one_of(
    st.builds(Said, st.one_of(st.none(), st.integers(0, 10_000))),
    st.just(Trouble("TooLate", "late")),
    st.none(),
)


@given(
    answers=st.lists(ANSWERS, max_size=20),
    allocated=st.integers(0, 30),
    queued=st.integers(0, 10),
    replicas=st.integers(0, 50),
    low=st.integers(0, 20),
    room=st.one_of(st.none(), st.integers(0, 40)),
    step=st.one_of(st.none(), st.integers(1, 20)),
    down=st.sampled_from(["0s", "1m"]),
)
def test_no_answer_takes_a_server_from_a_player(
    *,
    answers: list[Said | Trouble | None],
    allocated: int,
    queued: int,
    replicas: int,
    low: int,
    room: int | None,
    step: int | None,
    down: str,
) -> None:
    most = None if room is None else low + room
    given_ = scaler(min=low, max=most, max_step=step, stabilization=Stabilization(down=down))
    history, current = History(), replicas
    for number, answer in enumerate(answers):
        counts = Counts(replicas=current, allocated=allocated, queued=queued)
        plan = planned(
            given_, counts, answer=answer, asking=True, history=history, now=NOW + number * 7
        )
        after = current if plan.replicas is None else plan.replicas
        assert after >= min(current, allocated), "it never goes below what is allocated"
        if step is not None:
            assert abs(after - current) <= step
        if isinstance(answer, Trouble | None):
            assert after >= min(current, max(allocated, low)), "no answer shrinks nothing"
            assert after >= current
        assert plan.deadline is None or plan.deadline > NOW + number * 7
        history, current = plan.history, after


def test_nothing_grows_without_end() -> None:
    given_ = scaler(stabilization=Stabilization(down="8760h"))
    history = History()
    for number in range(2000):
        plan = planned(given_, FOUR, answer=Said(number % 7), history=history, now=NOW + number)
        history = plan.history
    assert len(history.wishes) <= 501
    assert msgspec.json.encode(history)
