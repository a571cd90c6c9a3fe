"""The rules of placement, in order: `plan(observed, now)`. Pure.

The status that comes out is written before anything else is done, and everything that is done may
be done twice: so an operator may die after any write, and another one goes on.
"""

from __future__ import annotations

import msgspec

from edgewise.api.placement import LatencyPlacementStatus, Sentinel
from edgewise.placement import model
from edgewise.placement.draft import Draft, Promote
from edgewise.placement.observed import Observed, PodHere, Role
from edgewise.placement.ranking import in_words, ranked
from edgewise.placement.steps import deciding, moving, rounds, searching, tidying
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.workloads.deadlines import moment, stamp
from edgewise.workloads.wording import CONDITION, shorten

CONDITIONS = ConditionSet(
    needs=("Placeable", "Reporting"), tells=("Draining", "TriggerFits", "Progressing")
)
MOST_VISITED = 5_000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    status: LatencyPlacementStatus
    create: tuple[Sentinel, ...]
    cost: tuple[PodHere, ...]
    promote: tuple[Promote, ...]
    uncost: tuple[PodHere, ...]
    delete: tuple[PodHere, ...]
    told: tuple[tuple[str, str], ...]
    deadline: float | None


def plan(seen: Observed, now: float) -> Plan:
    draft = Draft(seen, now)
    _rank(draft)
    paused = searching.pause(draft)
    if paused:
        searching.stop(draft)
    else:
        _search(draft)
    tidying.tidy(draft)
    _report(draft, paused)
    orders = draft.orders
    return Plan(
        status=draft.status,
        create=tuple(orders.create),
        cost=tuple(orders.cost),
        promote=tuple(orders.promote),
        uncost=tuple(orders.uncost),
        delete=tuple(orders.delete),
        told=tuple(draft.told),
        deadline=draft.deadline,
    )


def _search(draft: Draft) -> None:
    if not draft.searching and not searching.begin(draft):
        return
    if draft.status.decision is not None:
        moving.move(draft)
        if draft.status.decision is not None:
            return
    if draft.status.sentinels:
        rounds.settle(draft)
    if draft.status.sentinels:
        _judge(draft)
        return
    rounds.next_round(draft)


def _judge(draft: Draft) -> None:
    if any(each.name not in draft.sentinels for each in draft.status.sentinels):
        return  # they are being made
    deciding.decide(draft)
    if draft.status.decision is not None:
        moving.move(draft)
    if not draft.status.sentinels and draft.status.decision is None:
        rounds.next_round(draft)


def _rank(draft: Draft) -> None:
    values = dict(draft.seen.probed) if draft.seen.spec.mode == "Probe" else {}
    values |= draft.measured()
    there = [node.name for node in draft.seen.nodes]
    draft.status.ranking = ranked(draft.status.ranking, values, there, draft.now)


def _report(draft: Draft, paused: str) -> None:
    status, seen = draft.status, draft.seen
    status.observed_generation = seen.placement.metadata.generation
    nodes = sum(node.usable for node in seen.nodes)
    status.model_seconds = round(
        model.convergence_seconds(
            nodes,
            draft.wanted,
            seen.spec.sentinels,
            seen.observation,
            schedule=status.schedule_seconds or model.SCHEDULE_SECONDS,
            com=status.com_seconds or model.COM_SECONDS,
        ),
        3,
    )
    status.overload_percent = model.overload_percent(draft.wanted, seen.spec.sentinels)
    status.running = sum(pod.live for pod in draft.sentinels.values())
    status.visited = status.visited[-MOST_VISITED:]
    hears = searching.hears(draft)
    if hears:
        status.waiting_since = None
    elif status.waiting_since is None:
        status.waiting_since = stamp(draft.now)
    status.message = shorten(
        "; ".join(filter(None, (_words(draft), draft.waits_for and f"waits for {draft.waits_for}")))
    )
    status.conditions = CONDITIONS.report(
        status.conditions,
        [
            _placeable(paused),
            _reporting(draft, hears),
            _draining(draft),
            _trigger(draft),
            _progressing(draft, paused),
        ],
        generation=seen.placement.metadata.generation,
        now=draft.now,
    )


def _words(draft: Draft) -> str:
    return in_words(draft.status.ranking, draft.held(), draft.status.visited)


def _placeable(paused: str) -> Finding:
    if paused:
        return Finding("Placeable", False, "Paused", shorten(paused, CONDITION))
    return Finding("Placeable", True, "AsExpected")


def _reporting(draft: Draft, hears: bool) -> Finding:
    if hears:
        return Finding("Reporting", True, "Heard")
    since = draft.status.waiting_since
    if draft.seen.reporting:
        words = f"{draft.seen.reporting} (since {since}); nothing is moved meanwhile"
        return Finding("Reporting", False, "NotCounted", words)
    words = f"no client reports what it measures (since {since}); nothing is moved meanwhile"
    return Finding("Reporting", False, "NoReports", words)


def _draining(draft: Draft) -> Finding:
    hard = [
        pod.name
        for pod in draft.seen.pods
        if pod.role in (Role.REPLICA, Role.SENTINEL) and pod.live and not pod.drains
    ]
    if not hard:
        return Finding("Draining", True, "AsExpected")
    words = f"they end at once, because they began without a preStop: {', '.join(hard[:5])}"
    return Finding("Draining", False, "NoPreStop", words)


def _trigger(draft: Draft) -> Finding:
    trigger, needs = draft.seen.trigger, draft.status.model_seconds
    if trigger > needs:
        return Finding("TriggerFits", True, "AsExpected")
    words = (
        f"spec.trigger of {trigger:.0f} s is not longer than a search, {needs:.0f} s by the model"
    )
    return Finding("TriggerFits", False, "TooShort", words)


def _progressing(draft: Draft, paused: str) -> Finding:
    if paused or not draft.searching:
        return Finding("Progressing", False, "Idle", draft.waits_for)
    began = moment(draft.status.search.began_at) or draft.now
    words = draft.waits_for and f"waits for {draft.waits_for}"
    return Finding("Progressing", True, "Searching", words or f"since {stamp(began)}")
