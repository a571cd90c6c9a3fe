"""What an autoscaler does next: ask, set a number, or say why neither.

Whatever goes wrong, the number stays as it is. The one thing that is done without the policy is
to raise the number to what is allocated and waited for: so a game starts from zero.
"""

from __future__ import annotations

import msgspec

from edgewise.api.durations import seconds_of
from edgewise.api.games import GameAutoscalerSpec, PolicyType, SyncType
from edgewise.gameservers.autoscaler.bounds import Bounded, bounded, remembered
from edgewise.gameservers.autoscaler.observed import (
    Counts,
    History,
    Said,
    ScalerSeen,
    Trouble,
)
from edgewise.gameservers.autoscaler.policies import buffered, scheduled
from edgewise.runtime.conditions import ConditionSet, Finding

ACTIVE, ANSWERED, LIMITED = "Active", "Answered", "Limited"
SCALER_CONDITIONS = ConditionSet(needs=(ACTIVE, ANSWERED), tells=(LIMITED,))

# However short the interval, nobody is asked more often.
SHORTEST = 1.0
# A word for what an autoscaler decided, where it is not why it did nothing.
UP, DOWN, KEPT = "Up", "Down", "Kept"


class ScalerPlan(msgspec.Struct, frozen=True, kw_only=True):
    history: History
    replicas: int | None = None  # to write; None: nothing to write
    ask: Counts | None = None  # tell the webhook this
    desired: int | None = None
    decision: str = ""  # what an evaluation came to; empty if there was none
    findings: tuple[Finding, ...] = ()
    deadline: float | None = None


def plan_scaler(seen: ScalerSeen, now: float) -> ScalerPlan:
    counts, spec = seen.counts, seen.scaler.spec
    if (why := _inactive(seen)) is not None or counts is None:
        return ScalerPlan(
            history=History(), findings=(why,) if why else (), desired=None, decision=""
        )
    history = seen.history
    if not history.wishes:
        history = History.begun(counts.replicas, now)
    answer, ask = _evaluated(seen, counts, history, now)
    if ask or answer is not None:
        history = msgspec.structs.replace(history, evaluated=now, asked_for=counts)
    if answer is not None:
        trouble = answer if isinstance(answer, Trouble) else None
        history = msgspec.structs.replace(history, heard=True, trouble=trouble)
    wish = answer if isinstance(answer, int) else None
    found = bounded(spec, counts, wish, history.wishes, now)
    if wish is not None:
        kept = remembered(spec, history.wishes, wish, now)
        history = msgspec.structs.replace(history, wishes=kept)
    return ScalerPlan(
        history=history,
        replicas=found.number if found.number != counts.replicas else None,
        ask=counts if ask else None,
        desired=found.number,
        decision=_decision(answer, found, counts),
        findings=(
            Finding(ACTIVE, True, "Active", ""),
            _answered(history),
            _limited(found),
        ),
        # The answer wakes it. To look again before would be to look without end.
        deadline=None if ask or seen.asking else _next(spec, history, counts, now),
    )


def _inactive(seen: ScalerSeen) -> Finding | None:
    name = seen.scaler.spec.game_name
    if seen.rival:
        words = f"spec.gameName: {seen.rival} scales {name} already; delete one of the two"
        return Finding(ACTIVE, False, "TwoAutoscalers", words)
    if seen.counts is None:
        words = f"spec.gameName: there is no GameType {name} in this namespace"
        return Finding(ACTIVE, False, "NoSuchGame", words)
    if seen.going:
        return Finding(ACTIVE, False, "GameIsGoing", f"{name} is being deleted")
    return None


def _evaluated(
    seen: ScalerSeen, counts: Counts, history: History, now: float
) -> tuple[int | Said | Trouble | None, bool]:
    """What the policy says now, if it is time; and whether the webhook has to be asked for it."""
    policy = seen.scaler.spec.policy
    due = _is_due(seen.scaler.spec, history, counts, now)
    match policy.type:
        case PolicyType.WEBHOOK:
            if seen.answer is None:
                return None, due and not seen.asking
            if isinstance(seen.answer, Said) and seen.answer.desired is not None:
                return seen.answer.desired, False
            return seen.answer, False
        case PolicyType.BUFFER if policy.buffer is not None:
            return (buffered(policy.buffer, counts) if due else None), False
        case PolicyType.SCHEDULE if policy.schedule is not None:
            return (scheduled(policy.schedule, now) if due else None), False
        case _:
            words = f"policy.type {policy.type} is not known to this operator"
            return Trouble("BadPolicy", words), False


def _is_due(spec: GameAutoscalerSpec, history: History, counts: Counts, now: float) -> bool:
    last = history.evaluated
    if last is None or last > now:  # never, or the clock was set back
        return True
    if spec.sync.type == SyncType.ON_CHANGE and counts != history.asked_for:
        return now >= last + SHORTEST
    return now >= last + _interval(spec)


def _next(spec: GameAutoscalerSpec, history: History, counts: Counts, now: float) -> float:
    last = history.evaluated if history.evaluated is not None else now
    changed = spec.sync.type == SyncType.ON_CHANGE and counts != history.asked_for
    due = last + (SHORTEST if changed else _interval(spec))
    return due if due > now else now + SHORTEST


def _interval(spec: GameAutoscalerSpec) -> float:
    return max(SHORTEST, seconds_of(spec.sync.interval))


def _answered(history: History) -> Finding:
    trouble = history.trouble
    if trouble is not None:
        words = f"{trouble.message}; the number stays"
        return Finding(ANSWERED, False, trouble.reason, words)
    if not history.heard:
        return Finding(ANSWERED, None, "Asking", "the webhook was not heard yet")
    return Finding(ANSWERED, True, "Answered", "")


def _limited(found: Bounded) -> Finding:
    if found.limit:
        return Finding(LIMITED, True, found.limit, found.words)
    return Finding(LIMITED, False, "AsWished", "")


def _decision(answer: int | Said | Trouble | None, found: Bounded, counts: Counts) -> str:
    if found.number != counts.replicas:
        return UP if found.number > counts.replicas else DOWN
    if isinstance(answer, Trouble):
        return answer.reason
    return "" if answer is None else KEPT
