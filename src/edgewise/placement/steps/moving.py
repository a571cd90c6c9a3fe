"""Carries a decision out without a gap: a cost on the loser, then the winner to the ReplicaSet.

ReplicaSets delete unready pods before they look at the cost, so a sentinel is promoted only while
all replicas are ready.
"""

from __future__ import annotations

from enum import Enum

from edgewise.api.placement import MOST_MOVES, Promotion, Unconfirmed, Why
from edgewise.placement.draft import Draft, Promote
from edgewise.placement.observed import PodHere, Role
from edgewise.workloads.deadlines import moment, stamp

PATIENCE = 60.0
HOUR = 3600.0


class _Step(Enum):
    WAITS = "waits"
    DONE = "done"
    GIVEN_UP = "given up"


def move(draft: Draft) -> None:
    """The next step of each promotion. What is over leaves the decision."""
    decision = draft.status.decision
    if decision is None:
        return
    waiting = []
    for each in decision.promote:
        step = _step(draft, each)
        if step is _Step.WAITS:
            waiting.append(each)
        elif step is _Step.DONE:
            _note(draft, each)
    decision.promote = waiting
    names = {each.sentinel for each in waiting}
    draft.status.sentinels = [each for each in draft.status.sentinels if each.name in names]
    if not waiting:
        draft.end_round()


def _step(draft: Draft, wanted: Promotion) -> _Step:
    pods = draft.seen.pods
    winner = next((pod for pod in pods if pod.name == wanted.sentinel), None)
    loser = next((pod for pod in pods if pod.uid == wanted.loser_uid), None)
    if winner is not None and winner.role is not Role.SENTINEL:
        return _after(draft, winner, loser)
    if winner is None or not winner.live or not draft.usable(winner.node):
        draft.visit([wanted.node], Why.LOST)
        return _Step.GIVEN_UP
    if loser is None or not loser.live:
        # Kubernetes has replaced it already, or the target wants fewer.
        draft.visit([wanted.node], Why.HELD_BACK)
        return _Step.GIVEN_UP
    return _before(draft, wanted, winner, loser)


def _before(draft: Draft, wanted: Promotion, winner: PodHere, loser: PodHere) -> _Step:
    if not draft.all_ready or not winner.ready:
        late = (moment(wanted.since) or draft.now) + PATIENCE
        if draft.now >= late:
            draft.visit([wanted.node], Why.HELD_BACK)
            return _Step.GIVEN_UP
        draft.at(late)
        draft.waits_for = "all replicas to be ready"
    elif not loser.cost:
        draft.orders.cost.append(loser)
    elif draft.seen.target is not None:
        draft.orders.promote.append(Promote(winner, draft.seen.target.revision))
    return _Step.WAITS


def _after(draft: Draft, winner: PodHere, loser: PodHere | None) -> _Step:
    """The winner is no longer ours: the ReplicaSet adopts it, and deletes the costly one."""
    if loser is None or not loser.live:
        return _Step.DONE
    if winner.role is Role.REPLICA and len(draft.replicas) <= draft.wanted:
        return _Step.DONE  # the target wants more by now: the loser stays, without its cost
    draft.waits_for = f"the ReplicaSet to delete {loser.name}"
    draft.at(draft.now + 1)
    return _Step.WAITS


def _note(draft: Draft, done: Promotion) -> None:
    status, now = draft.status, draft.now
    status.moves += 1
    if done.node not in status.search.won:
        status.search.won.append(done.node)
    recent = [each for each in status.recent_moves if (moment(each) or 0.0) > now - HOUR]
    status.recent_moves = [*recent, stamp(now)][-MOST_MOVES:]
    draft.told.append(
        ("Moved", f"{done.sentinel} on {done.node} for {done.loser}: {done.gain_ms:.0f} ms nearer")
    )
    if done.back_to:
        until = now + 10 * draft.seen.observation
        status.unconfirmed.append(
            Unconfirmed(
                pod=done.sentinel,
                node=done.node,
                back_to=done.back_to,
                before_ms=done.before_ms,
                until=stamp(until),
            )
        )
