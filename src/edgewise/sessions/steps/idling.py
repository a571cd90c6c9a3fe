"""Pods without clients: made clean, kept for the next client, given back, or removed."""

from __future__ import annotations

import msgspec

from edgewise.api.sessions import IdlePod, PodPhase, PodTemplate
from edgewise.sessions.draft import Draft
from edgewise.sessions.orders import ReleasePod, ResetPod
from edgewise.sessions.pods import reuse_of
from edgewise.workloads.deadlines import kept, stamp
from edgewise.workloads.pods_seen import PodSeen


def reset_attempt(session_uid: str, record: IdlePod) -> str:
    """What tells this reset of a pod from its others, whoever had the pod then."""
    return f"{session_uid} {record.until} {record.restarts}"


def settle_idle(draft: Draft) -> None:
    created = {order.name for order in draft.create}
    for pod in draft.revision_of.keys() - draft.load.keys() - created:
        seen = draft.seen.pods.get(pod)
        if seen is not None:
            _idle(draft, seen)
    for pod in draft.idle.keys() - draft.revision_of.keys():
        del draft.idle[pod]


def _idle(draft: Draft, pod: PodSeen) -> None:
    template = _current_template(draft, pod)
    period = draft.workload.reutilize_timeout_seconds
    if template is None or not period or reuse_of(draft.workload) == "Never":
        _remove(draft, pod)
        return
    record = draft.idle.get(pod.name)
    if record is None:
        record = _begin(draft, pod, template)
    if record.phase == PodPhase.RESETTING:
        _resetting(draft, pod, template, record)
    else:
        _waiting(draft, pod, record, period)


def _current_template(draft: Draft, pod: PodSeen) -> PodTemplate | None:
    """The template of a pod that is still what the template says."""
    revision = draft.revision_of[pod.name]
    return next((made.template for made in draft.made if made.name == revision), None)


def _begin(draft: Draft, pod: PodSeen, template: PodTemplate) -> IdlePod:
    # A pod that was never ready has met nobody.
    clean = pod.name in draft.unused or not draft.ip_of[pod.name]
    if clean or template.reset is None:
        return IdlePod(phase=PodPhase.WAIT_FOR_REUSE)
    until = stamp(draft.now + template.reset.timeout_seconds)
    restarts = pod.restarts_of(template.reset.restart_container)
    return IdlePod(phase=PodPhase.RESETTING, until=until, restarts=restarts)


def _resetting(draft: Draft, pod: PodSeen, template: PodTemplate, record: IdlePod) -> None:
    reset = template.reset
    done = draft.seen.resets.get(pod.name)
    restarted = reset is not None and pod.restarts_of(reset.restart_container) > record.restarts
    if restarted:
        done = True if pod.ready else None
    if reset is None or done:
        period = draft.workload.reutilize_timeout_seconds
        _waiting(draft, pod, IdlePod(phase=PodPhase.WAIT_FOR_REUSE), period)
        return
    deadline = kept(record.until, reset.timeout_seconds, draft.now)
    if done is False or draft.due(deadline):
        draft.note("ResetFailed", f"pod {pod.name} could not be made clean", warning=True)
        _remove(draft, pod)
        return
    record = draft.idle[pod.name] = msgspec.structs.replace(record, until=stamp(deadline))
    ports = draft.revisions[pod.revision].ports
    port = reset.port or (ports[0].port if ports else 80)
    if not restarted:
        attempt = reset_attempt(draft.seen.session.metadata.uid, record)
        draft.reset.append(ResetPod(pod, reset, port, attempt))


def _waiting(draft: Draft, pod: PodSeen, record: IdlePod, period: int) -> None:
    if pod.pooled and reuse_of(draft.workload) == "Template":
        draft.drop_pod(pod.name)
        draft.release.append(ReleasePod(pod, draft.seen.claims.get(pod.name), period))
        return
    deadline = kept(record.until, period, draft.now)
    if draft.due(deadline):
        _remove(draft, pod)
    else:
        draft.idle[pod.name] = IdlePod(phase=PodPhase.WAIT_FOR_REUSE, until=stamp(deadline))


def _remove(draft: Draft, pod: PodSeen) -> None:
    draft.drop_pod(pod.name)
    draft.remove_pod(pod)
