"""Conditions: what is found, what follows for Ready, and when a transition time moves."""

from __future__ import annotations

import pytest

from edgewise.kube.conditions import Condition
from edgewise.runtime.conditions import ConditionSet, Finding, is_true, microtimestamp, timestamp

SET = ConditionSet(needs=("Sized", "Placed"), fears=("Degraded",), tells=("Noted",))
GOOD = [
    Finding("Sized", True, "SizeKnown"),
    Finding("Placed", True, "NodeFound"),
    Finding("Degraded", False, "AllWell"),
]


def report(
    findings: list[Finding], before: list[Condition] | None = None, now: float = 0.0
) -> dict[str, Condition]:
    conditions = SET.report(before or [], findings, generation=7, now=now)
    return {each.type: each for each in conditions}


@pytest.mark.parametrize(
    ("what", "findings", "status", "reason"),
    [
        ("all that is needed holds", GOOD, "True", "Ready"),
        (
            "something needed does not hold",
            [Finding("Sized", False, "TooBig", "9 is too big"), *GOOD[1:]],
            "False",
            "TooBig",
        ),
        (
            "something feared holds",
            [*GOOD[:2], Finding("Degraded", True, "PodLost")],
            "False",
            "PodLost",
        ),
        (
            "something is not known",
            [GOOD[0], Finding("Placed", None, "Waiting"), GOOD[2]],
            "Unknown",
            "Waiting",
        ),
        (
            "what is wrong is said before what is not known",
            [Finding("Sized", None, "Waiting"), Finding("Placed", False, "NoNode"), GOOD[2]],
            "False",
            "NoNode",
        ),
        ("something was not looked at", GOOD[:1], "Unknown", "NotObserved"),
        (
            "what is only told has no say",
            [*GOOD, Finding("Noted", False, "Whatever")],
            "True",
            "Ready",
        ),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_ready(what: str, findings: list[Finding], status: str, reason: str) -> None:
    ready = report(findings)["Ready"]
    assert (ready.status, ready.reason) == (status, reason)
    assert ready.observed_generation == 7


def test_the_message_of_what_is_wrong_becomes_that_of_ready() -> None:
    wrong = [Finding("Sized", False, "TooBig", "9 is too big"), *GOOD[1:]]
    assert report(wrong)["Ready"].message == "9 is too big"


def test_a_transition_time_moves_only_when_a_status_flips() -> None:
    first = report(GOOD, now=100.0)
    same = report(
        [Finding("Sized", True, "OtherReason"), *GOOD[1:]], list(first.values()), now=200.0
    )
    assert same["Sized"].reason == "OtherReason"
    assert same["Sized"].last_transition_time == timestamp(100.0)
    flipped = report([Finding("Sized", False, "TooBig"), *GOOD[1:]], list(same.values()), now=300.0)
    assert flipped["Sized"].last_transition_time == timestamp(300.0)
    assert flipped["Ready"].last_transition_time == timestamp(300.0)
    assert flipped["Placed"].last_transition_time == timestamp(100.0)


def test_what_somebody_else_wrote_stays_and_what_is_no_longer_told_goes() -> None:
    foreign = Condition(
        type="Theirs", status="True", reason="X", message="", last_transition_time="t"
    )
    before = report([*GOOD, Finding("Noted", True, "Once")])
    after = report(GOOD, [*before.values(), foreign])
    assert after["Theirs"] is foreign
    assert "Noted" not in after


def test_a_condition_that_was_not_declared_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="'Typo' is not declared"):
        report([*GOOD, Finding("Typo", True, "X")])


def test_is_true() -> None:
    conditions = SET.report([], GOOD, generation=1, now=0.0)
    assert is_true(conditions)
    assert is_true(conditions, "Sized")
    assert not is_true(conditions, "Degraded")
    assert not is_true([], "Ready")


def test_times_are_written_as_the_api_server_wants_them() -> None:
    assert timestamp(1_700_000_000.9) == "2023-11-14T22:13:20Z"
    assert microtimestamp(1_700_000_000.25) == "2023-11-14T22:13:20.250000Z"
