"""What becomes of a request, as sentences."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edgewise.api.tenancy_requests import Decision, RequestState, RequestStatus
from edgewise.tenancy.requests.plan import Plan, Seen, plan

MADE = datetime(2026, 1, 1, tzinfo=UTC)
NOW = MADE + timedelta(hours=1)
YES = Decision(approved=True, by="olga")
NO = Decision(approved=False, by="olga", reason="not now")
GRANTED = RequestStatus(state=RequestState.GRANTED, notified=True)


def planned(now: datetime = NOW, **seen: Any) -> Plan:
    told: dict[str, Any] = {"decision": None, "status": RequestStatus(), **seen}
    return plan(Seen(created=MADE, generation=3, **told), now)


STATES: dict[str, tuple[dict[str, Any], str]] = {
    "an undecided one waits": ({}, "Pending"),
    "one that was denied stays denied": ({"decision": NO}, "Denied"),
    "a denied one gives nothing, whatever is there": ({"decision": NO, "given": True}, "Denied"),
    "an approved one that gave what it should is granted": (
        {"decision": YES, "given": True},
        "Granted",
    ),
    "what was given and is gone was withdrawn": ({"decision": YES, "status": GRANTED}, "Withdrawn"),
    "what was withdrawn is not given again": (
        {"decision": YES, "status": RequestStatus(state=RequestState.WITHDRAWN)},
        "Withdrawn",
    ),
    "a name that somebody else has is a failure": (
        {"decision": YES, "taken": "there is one"},
        "Failed/Collision",
    ),
    "what the API server refuses is a failure": (
        {"decision": YES, "refused": "no such right"},
        "Failed/Refused",
    ),
    "a grant whose time is over has ended": (
        {"decision": YES, "given": True, "grant_expires_at": NOW},
        "Ended",
    ),
    "what has ended does not begin again": (
        {"decision": YES, "status": RequestStatus(state=RequestState.ENDED)},
        "Ended",
    ),
}


@pytest.mark.parametrize("sentence", STATES)
def test_states(sentence: str) -> None:
    seen, state = STATES[sentence]
    decided = planned(**seen)
    assert decided.status.state == state
    assert not decided.give
    assert decided.status.observed_generation == 3


def test_an_approved_one_is_given_once_nothing_is_in_the_way() -> None:
    assert planned(decision=YES).give
    assert planned(decision=YES, given=True, unfinished=True).give


def test_an_undecided_one_ends_after_three_days() -> None:
    end = MADE + timedelta(hours=72)
    before = planned(now=end - timedelta(seconds=1))
    assert before.wake_at == end
    assert before.status.expires_at == end
    assert not before.end
    assert planned(now=end).end


def test_a_decided_one_does_not_end() -> None:
    later = MADE + timedelta(days=400)
    assert not planned(now=later, decision=NO).end
    assert not planned(now=later, decision=YES, given=True).end


def test_a_grant_wakes_us_at_its_end_and_is_taken_back_then() -> None:
    end = NOW + timedelta(hours=1)
    assert planned(decision=YES, given=True, grant_expires_at=end).wake_at == end
    assert planned(now=end, decision=YES, given=True, grant_expires_at=end).take_back
    assert not planned(now=end, decision=YES, grant_expires_at=end).give


def test_each_state_is_told_once() -> None:
    first = planned(decision=NO)
    assert first.tell == ("Denied", "olga said no: not now")
    assert planned(decision=NO, status=first.status).tell is None


@pytest.mark.parametrize("sentence", STATES)
def test_a_second_look_writes_nothing_else(sentence: str) -> None:
    seen, _ = STATES[sentence]
    first = planned(**seen)
    again = planned(**{**seen, "status": first.status})
    assert again.status == first.status
    assert again.tell is None
