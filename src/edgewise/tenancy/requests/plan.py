"""What becomes of a request. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from edgewise.api.tenancy_requests import (
    UNDECIDED_HOURS,
    Decision,
    RequestState,
    RequestStatus,
)

_FAILED = RequestState.FAILED


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A request, and how what it is about stands."""

    created: datetime
    generation: int
    decision: Decision | None
    status: RequestStatus
    grant_expires_at: datetime | None = None
    # What it gave is there; something else has the name of that; what was begun and is not whole.
    given: bool = False
    taken: str = ""
    unfinished: bool = False
    # Why the API server did not let us give it, when we last tried.
    refused: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    # The next write, if any; the status is written when there is none left.
    give: bool = False
    take_back: bool = False
    end: bool = False  # the request itself goes
    status: RequestStatus
    wake_at: datetime | None = None
    # An event about the state, if there was none yet: reason and sentence.
    tell: tuple[str, str] | None = None


def plan(seen: Seen, now: datetime) -> Plan:
    if seen.decision is None:
        return _undecided(seen, now)
    if not seen.decision.approved:
        why = f": {seen.decision.reason}" if seen.decision.reason else ""
        return _rests(seen, RequestState.DENIED, f"{seen.decision.by} said no{why}")
    return _over(seen, now) or _granted(seen, seen.decision) or _to_be_given(seen)


def _over(seen: Seen, now: datetime) -> Plan | None:
    over = seen.grant_expires_at is not None and seen.grant_expires_at <= now
    if over or seen.status.state == RequestState.ENDED:
        ended = _rests(seen, RequestState.ENDED, "the time for which it was asked is over")
        return msgspec.structs.replace(ended, take_back=seen.given)
    # What is taken away by hand is not given again: a request is no way around that.
    if seen.status.state == RequestState.WITHDRAWN:
        return _rests(seen, RequestState.WITHDRAWN, seen.status.message)
    if seen.status.state == RequestState.GRANTED and not seen.given:
        return _rests(seen, RequestState.WITHDRAWN, "what it gave was deleted")
    return None


def _granted(seen: Seen, decision: Decision) -> Plan | None:
    if not seen.given or seen.unfinished:
        return None
    granted = _rests(seen, RequestState.GRANTED, f"approved by {decision.by}")
    return msgspec.structs.replace(granted, wake_at=seen.grant_expires_at)


def _to_be_given(seen: Seen) -> Plan:
    if seen.taken:
        return _rests(seen, f"{_FAILED}/Collision", seen.taken)
    if seen.refused:
        return _rests(seen, f"{_FAILED}/Refused", seen.refused)
    return Plan(give=True, status=seen.status)


def _undecided(seen: Seen, now: datetime) -> Plan:
    ends = seen.created.astimezone(UTC) + timedelta(hours=UNDECIDED_HOURS)
    pending = _rests(seen, RequestState.PENDING, "waits for a decision", expires_at=ends)
    if now >= ends:
        # The state is told for the last time, by an event that outlives the request a little.
        sentence = f"nobody decided within {UNDECIDED_HOURS} h"
        return msgspec.structs.replace(pending, end=True, tell=("Expired", sentence))
    return msgspec.structs.replace(pending, wake_at=ends)


def _rests(seen: Seen, state: str, message: str, *, expires_at: datetime | None = None) -> Plan:
    """Nothing is to be done but to say how it stands."""
    status = RequestStatus(
        observed_generation=seen.generation,
        state=state,
        message=message,
        expires_at=expires_at,
        notified=True,
    )
    told = seen.status.notified and seen.status.state == state
    return Plan(status=status, tell=None if told else (state.partition("/")[0], message))
