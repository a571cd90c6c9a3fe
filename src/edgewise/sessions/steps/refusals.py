"""Pods that the API server will not have: a quota is used up, a policy or a webhook says no.

Nothing has failed, so nobody is given a rest: the same pod is asked for again after a while,
or as soon as room appears. It is asked for in order: those who lost a pod first, then those who
come back, then those who join. While the answer is no, one pod is asked for at a time, and twice
as many after each yes: a hundred waiting clients make no hundred requests.
"""

from __future__ import annotations

import msgspec

from edgewise.api.sessions import ClientPhase, Refusal
from edgewise.sessions.draft import Draft
from edgewise.sessions.status.draft import StatusDraft
from edgewise.workloads.deadlines import kept, moment, stamp
from edgewise.workloads.wording import alike

FIRST_WAIT = 1.0
LONGEST_WAIT = 30.0
# However often room appears, it is not asked for more often than this (and later more seldom).
SHORTEST_WAIT = 0.1
LONGEST_SHORT_WAIT = 2.0

# Who goes first when there is not room for all.
RECOVERY, RETURN, JOIN, AWAY = range(4)
# Sessions of a namespace share its room and do not know of each other: the less urgent wait a
# moment after room appeared, so that the more urgent find it.
HEAD_START = (0.0, 0.3, 0.6, 0.9)


def rank_of(draft: Draft, client: str) -> int:
    record = draft.clients[client]
    if record.phase == ClientPhase.DISCONNECTED:
        return AWAY
    if record.phase == ClientPhase.STARTING:
        return RETURN if record.endpoints else JOIN
    return RECOVERY


class Asking:
    """How many pods of one revision a plan may ask for."""

    def __init__(self, draft: Draft, revision: str) -> None:
        self._draft = draft
        self._revision = revision
        self._record = draft.refusals.get(revision)
        self._left = self._record.most if self._record is not None else 0

    def may(self, rank: int, *, bereaved: bool) -> bool:
        """In the order of their ranks; `bereaved`: their pod is lost since this very plan."""
        if self._record is None:
            return True
        if bereaved:
            # Others were refused, not they; and there is one pod less than there was.
            self._draft.urgent.add(self._revision)
            return True
        if self._left <= 0:
            return False
        when = _asked_again_at(self._record, rank, self._draft.seen.room_at, self._draft.now)
        if when > self._draft.now:
            self._draft.deadlines.append(when)
            self._left = 0
            return False
        self._left -= 1
        return True


def _asked_again_at(record: Refusal, rank: int, room_at: float, now: float) -> float:
    until = kept(record.until, LONGEST_WAIT, now)
    asked = moment(record.at) or 0.0
    if room_at < asked:
        return until
    pause = min(LONGEST_SHORT_WAIT, SHORTEST_WAIT * 2.0 ** min(max(record.count - 1, 0), 16))
    return min(until, max(asked + pause, room_at + HEAD_START[rank]))


def refuse(draft: StatusDraft, revision: str, template: str, words: str) -> None:
    """The API server said no to at least one pod of this revision."""
    before = draft.refusals.get(revision, Refusal())
    count = 1 if revision in draft.urgent else before.count + 1
    wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(count - 1, 16))
    draft.refusals[revision] = Refusal(
        count=count, at=stamp(draft.now), until=stamp(draft.now + wait), message=words
    )
    draft.deadlines.append(draft.now + wait)
    if not alike(before.message, words):
        draft.note("PodsRefused", f"pods of {template} are refused: {words}", warning=True)


def accept(draft: StatusDraft, revision: str) -> None:
    """It said yes to all that it was asked for."""
    before = draft.refusals.get(revision)
    if before is None:
        return
    if revision not in draft.unplaced:
        del draft.refusals[revision]
        return
    draft.refusals[revision] = msgspec.structs.replace(
        before, count=0, until=stamp(draft.now), most=min(before.most * 2, 1 << 16)
    )
    draft.deadlines.append(draft.now)
