"""Which sentinels of a round become replicas, and which replicas go for them."""

from __future__ import annotations

from edgewise.api.placement import Decision, Promotion, Sentinel, Why
from edgewise.placement.draft import Draft
from edgewise.placement.observed import PodHere
from edgewise.placement.ranking import Value, improves
from edgewise.placement.steps import probing, searching
from edgewise.placement.steps.starting import UNHEARD
from edgewise.workloads.deadlines import moment, stamp

# Replicas that are not ready hold a decision up for so long.
PATIENCE = 60.0


def decide(draft: Draft) -> None:
    """Once everything that runs was measured: the worst go. Otherwise it is said what is awaited.

    A sentinel whose node was known to be better before is promoted as soon as it is ready.
    """
    if draft.status.sentinels[0].replaces:
        probing.decide_directed(draft)
        return
    if not all(draft.sentinels[each.name].ready for each in draft.status.sentinels):
        return
    if not searching.hears(draft):
        draft.waits_for = "reports"
        return
    _drop_unheard(draft)
    if not draft.status.sentinels:
        draft.remember_sentinels()
        return
    ready_at = max(moment(each.ready_at) or draft.now for each in draft.status.sentinels)
    measured = _measured(draft, ready_at)
    if measured is None:
        return
    sentinels, replicas = measured
    held_back = not draft.all_ready
    if held_back and draft.now < ready_at + PATIENCE:
        draft.waits_for = "all replicas to be ready"
        draft.at(ready_at + PATIENCE)
        return
    _note_times(draft, ready_at)
    _pair(draft, sentinels, replicas, held_back=held_back)


def _heard_since(draft: Draft) -> float:
    """Since when there are reports at all: of what ran before, none can be older than that."""
    for each in draft.status.conditions:
        if each.type == "Reporting" and each.status == "True":
            return moment(each.last_transition_time) or draft.now
    return draft.now


def _drop_unheard(draft: Draft) -> None:
    kept: list[Sentinel] = []
    heard_since = _heard_since(draft)
    last = max((value.last for value in draft.seen.heard.values()), default=0.0)
    for each in draft.status.sentinels:
        pod = draft.sentinels[each.name]
        late = max(pod.ready_since, heard_since) + UNHEARD * draft.seen.observation
        if draft.fresh(pod) is not None:
            kept.append(each)
        elif draft.now >= late and last >= late - draft.seen.observation:
            # Others were heard until the end: were it not so, clients might be silent altogether.
            draft.visit([pod.node], Why.NO_REPORTS)
        else:
            draft.at(late)
            kept.append(each)
    draft.status.sentinels = kept


def _measured(
    draft: Draft, ready_at: float
) -> tuple[list[tuple[Sentinel, Value]], list[tuple[PodHere, Value]]] | None:
    """The value of each sentinel and each replica; None while some are awaited."""
    known = draft.measured()
    sentinels: list[tuple[Sentinel, Value]] = []
    for each in draft.status.sentinels:
        if draft.fresh(draft.sentinels[each.name]) is None:
            draft.waits_for = f"reports of {each.name} on {each.node}"
            return None
        sentinels.append((each, known[draft.sentinels[each.name].node]))
    late = max(ready_at, _heard_since(draft)) + UNHEARD * draft.seen.observation
    replicas: list[tuple[PodHere, Value]] = []
    for pod in draft.replicas:
        if draft.fresh(pod) is not None:
            replicas.append((pod, known[pod.node]))
        elif draft.now < late:
            draft.at(late)
            draft.waits_for = f"reports of {pod.name} on {pod.node}"
            return None
    return sentinels, replicas


def _note_times(draft: Draft, ready_at: float) -> None:
    """What this round took, into the means over the search: T_S and T_COM of the model."""
    status = draft.status
    began, count = moment(status.round_at) or ready_at, max(1, status.round)
    schedule = max(0.0, ready_at - began)
    com = max(0.0, draft.now - ready_at - draft.seen.observation)
    old_schedule = status.schedule_seconds if count > 1 else schedule
    old_com = status.com_seconds if count > 1 else com
    status.schedule_seconds = round(old_schedule + (schedule - old_schedule) / count, 3)
    status.com_seconds = round(old_com + (com - old_com) / count, 3)


def _pair(
    draft: Draft,
    sentinels: list[tuple[Sentinel, Value]],
    replicas: list[tuple[PodHere, Value]],
    *,
    held_back: bool,
) -> None:
    """The best sentinel against the worst replica, the next against the next."""
    sentinels.sort(key=lambda each: (each[1].rtt_ms, each[0].name))
    replicas.sort(key=lambda each: (-each[1].rtt_ms, each[0].name))
    left, wanted = probing.moves_left(draft), draft.seen.spec.min_improvement
    promote: list[Promotion] = []
    winners, losers = [], []
    for number, (sentinel, value) in enumerate(sentinels):
        worst = replicas[number] if number < len(replicas) else None
        if worst is None or not improves(value.rtt_ms, worst[1].rtt_ms, wanted):
            why = Why.WORSE
        elif held_back:
            why = Why.HELD_BACK
        elif len(promote) >= left:
            why = Why.LIMITED
        else:
            promote.append(
                Promotion(
                    sentinel=sentinel.name,
                    loser=worst[0].name,
                    loser_uid=worst[0].uid,
                    node=sentinel.node,
                    since=stamp(draft.now),
                    gain_ms=round(worst[1].rtt_ms - value.rtt_ms, 2),
                )
            )
            winners.append(sentinel)
            losers.append(worst[0])
            continue
        draft.visit([sentinel.node], why)
    gone = {pod.uid for pod in losers}
    stay = {pod.node for pod in draft.replicas if pod.uid not in gone}
    draft.visit([pod.node for pod in losers if pod.node not in stay], Why.REPLACED)
    draft.remember_sentinels()
    names = {each.name for each in winners}
    remove = [each.name for each, _ in sentinels if each.name not in names]
    draft.status.sentinels = winners
    draft.status.decision = Decision(at=stamp(draft.now), promote=promote, remove=remove)
