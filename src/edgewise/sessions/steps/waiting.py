"""Why a client is not ready, since when, and until when its pod may take.

Every wait has its reason in the client's own status. A start that goes as it should needs no
words for its first seconds: each word would be one more write of the session.
"""

from __future__ import annotations

import msgspec

from edgewise.api.sessions import DEFAULT_READY_SECONDS, ClientPhase, ClientStatus, Failures
from edgewise.sessions.pods import Made
from edgewise.sessions.status.draft import StatusDraft
from edgewise.sessions.steps.failing import failures_of
from edgewise.workloads.deadlines import kept, moment, stamp
from edgewise.workloads.pods_seen import PodSeen
from edgewise.workloads.wording import shorten

# Longer than an ordinary start takes, and much shorter than people wait without a word.
WORDLESS = 10.0
# So many pods in a row, and it is no accident of the pod's.
SOME = 2


class Why(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


NOTHING = Why()


def ready_seconds(draft: StatusDraft) -> int:
    seconds = draft.workload.ready_seconds
    return DEFAULT_READY_SECONDS if seconds is None else seconds


def is_newcomer(record: ClientStatus) -> bool:
    """One that no pod has served yet, so that none holds anything that matters to it."""
    return record.phase == ClientPhase.STARTING and not record.endpoints


def waiting(draft: StatusDraft, record: ClientStatus, why: Why) -> ClientStatus:
    """The record of a client that is not ready now."""
    period = ready_seconds(draft)
    since = min(moment(record.since) or draft.now, draft.now)
    new = is_newcomer(record)
    replaceable = any(
        not draft.ip_of.get(pod)
        or ((seen := draft.pod(pod)) is not None and (seen.trouble or (new and not seen.ready)))
        for pod in record.pods.values()
    )
    return msgspec.structs.replace(
        record,
        ready=False,
        reason=why.reason,
        message=shorten(why.message),
        late=record.late or draft.due(since + period),
        since=stamp(since),
        due=stamp(kept(record.due, period, draft.now)) if replaceable else None,
    )


def why_waiting(draft: StatusDraft, record: ClientStatus) -> Why:
    if draft.seen.workload is None:
        return Why("TemplateNotFound", "its SessionTemplate is not there")
    for made in draft.made:
        pod = record.pods.get(made.template.name)
        why = _unseated(draft, record, made) if pod is None else _seated(draft, record, made, pod)
        if why.reason:
            return why
    known = {made.template.name for made in draft.made}
    for template, pod in record.pods.items():
        seen = draft.pod(pod)
        if template not in known and seen is not None and not seen.ready:
            return Why(seen.reason, seen.standing)
    return NOTHING


def _unseated(draft: StatusDraft, record: ClientStatus, made: Made) -> Why:
    failures, refusal = failures_of(record, made), draft.refusals.get(made.name)
    if failures is not None and (moment(failures.until) or 0.0) > draft.now:
        words = f"{_failed(failures)}; the next one is made at {failures.until}"
        draft.warn("PodsFailing", f"pods of {made.template.name} fail: {words}")
        return Why(failures.reason, words)
    if refusal is not None:
        words = f"pods of {made.template.name} are refused: {refusal.message}"
        draft.warn("PodsRefused", words)
        return Why("PodsRefused", words)
    return NOTHING


def _failed(failures: Failures) -> str:
    if failures.count == 1:
        return failures.message
    return f"{failures.message} ({failures.count} pods in a row)"


def _seated(draft: StatusDraft, record: ClientStatus, made: Made, pod: str) -> Why:
    seen, failures = draft.pod(pod), failures_of(record, made)
    if seen is not None and seen.ready:
        return NOTHING
    if seen is not None and (seen.trouble or seen.node in draft.seen.lost_nodes):
        return _in_trouble(draft, seen)
    if failures is not None:
        words = _failed(failures)
        if failures.count >= SOME or _is_late(draft, record):
            draft.warn("PodsFailing", f"pods of {made.template.name} fail: {words}")
        return Why(failures.reason, f"{words}; another one is starting")
    return _starting(draft, record, seen) if seen is not None else NOTHING


def _in_trouble(draft: StatusDraft, seen: PodSeen) -> Why:
    if seen.node in draft.seen.lost_nodes:
        return Why("NodeLost", f"node {seen.node} does not answer; its pod is given time")
    draft.warn("PodsNotStarting", seen.trouble)
    return Why(seen.reason, seen.trouble)


def _starting(draft: StatusDraft, record: ClientStatus, seen: PodSeen) -> Why:
    since = moment(record.since) or draft.now
    if not draft.ip_of.get(seen.name) and since + WORDLESS > draft.now:
        draft.deadlines.append(since + WORDLESS)
        return NOTHING
    if _is_late(draft, record):
        draft.warn("PodsNotReady", seen.standing)
    return Why(seen.reason, seen.standing)


def _is_late(draft: StatusDraft, record: ClientStatus) -> bool:
    since = moment(record.since) or draft.now
    return record.late or draft.now >= since + ready_seconds(draft)
