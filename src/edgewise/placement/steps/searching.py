"""When a search begins, and what it came to when it ends."""

from __future__ import annotations

from edgewise.api.placement import Phase
from edgewise.placement.draft import Draft
from edgewise.workloads.deadlines import moment, stamp

# Why a search began: users measured more than they should.
THRESHOLD = "Threshold"


def pause(draft: Draft) -> str:
    """Why nothing may be done now, in words; the search is over then, and begins again later."""
    seen, target = draft.seen, draft.seen.target
    if seen.problem:
        return seen.problem
    if target is None or target.deleting:
        return f"there is no Deployment {seen.spec.target.name} in this namespace"
    if target.paused_because:
        return target.paused_because
    if target.replicas == 0:
        return f"Deployment {seen.spec.target.name} has no replicas"
    if target.rolling:
        return f"Deployment {seen.spec.target.name} rolls out; the search begins after that"
    return ""


def stop(draft: Draft) -> None:
    if draft.status.sentinels:
        draft.remember_sentinels()
    draft.status.search.began_at = draft.status.search.ended_at = None
    draft.status.unconfirmed = []
    draft.pause()


def begin(draft: Draft) -> bool:
    """Whether a search goes on from here."""
    reason = _reason(draft)
    if not reason:
        return False
    if not draft.all_ready:
        draft.waits_for = "all replicas to be ready"
        return False
    if not hears(draft):
        draft.waits_for = "reports"
        return False
    status, meta = draft.status, draft.seen.placement.metadata
    search = status.search
    search.number += 1
    search.reason = reason
    search.began_at, search.ended_at = stamp(draft.now), None
    search.revision = draft.seen.target.revision if draft.seen.target else ""
    search.generation, search.futile, search.won = meta.generation, False, []
    status.round, status.round_at = 0, None
    status.visited = []
    status.sentinel_seconds = 0.0
    status.phase = Phase.SEARCHING
    draft.end_round()
    draft.told.append(("SearchBegan", f"search {search.number} begins ({reason})"))
    return True


def _reason(draft: Draft) -> str:
    search, seen = draft.status.search, draft.seen
    ended = moment(search.ended_at)
    if search.began_at is None or ended is None:
        return "First" if search.number == 0 else "Again"
    if seen.target is not None and search.revision != seen.target.revision:
        return "Rollout"
    if search.generation != seen.placement.metadata.generation:
        return "Changed"
    due = min(ended, draft.now) + seen.trigger
    if draft.now >= due:
        return "Trigger"
    draft.at(due)
    if seen.over_since is not None and not search.futile:
        if draft.now >= seen.over_since + 2 * seen.observation:
            return THRESHOLD
        draft.at(seen.over_since + 2 * seen.observation)
    return ""


def hears(draft: Draft) -> bool:
    """Whether there are reports at all: without them nothing is ever moved."""
    if draft.seen.reporting:
        return False
    latest = draft.now - max(5 * draft.seen.observation, 5.0)
    heard = any(
        value.last >= latest
        for pod in draft.seen.pods
        if (value := draft.seen.heard.get(pod.uid)) is not None
    )
    probes = draft.seen.spec.mode == "Probe"
    return heard or (probes and any(each.last >= latest for each in draft.seen.probed.values()))


def keeps_sla(draft: Draft) -> bool:
    """Whether every replica is reported, and none of them above the SLA."""
    sla = draft.seen.spec.sla
    if sla is None:
        return False
    values = [draft.fresh(pod) for pod in draft.replicas]
    return bool(values) and all(each is not None and each.p95_ms <= sla.p95_ms for each in values)


def finish(draft: Draft) -> None:
    status, spec = draft.status, draft.seen.spec
    began = moment(status.search.began_at) or draft.now
    status.search.ended_at = stamp(draft.now)
    status.convergence_seconds = round(max(0.0, draft.now - began), 3)
    status.phase = Phase.CONVERGED
    if spec.sla is not None:
        status.phase = Phase.SATISFIED if keeps_sla(draft) else Phase.VIOLATED
    if spec.threshold is not None:
        values = [value for pod in draft.replicas if (value := draft.fresh(pod)) is not None]
        status.search.futile = any(each.p95_ms > spec.threshold.p95_ms for each in values)
    draft.end_round()
    draft.at(draft.now + draft.seen.trigger)
    words = f"search {status.search.number} ended after {status.convergence_seconds:.1f} s"
    draft.told.append((str(status.phase), words))
