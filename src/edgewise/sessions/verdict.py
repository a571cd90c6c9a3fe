"""What the session's conditions and counts say."""

from __future__ import annotations

from edgewise.api.sessions import SessionCounts
from edgewise.kube.conditions import Condition
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.sessions.draft import Draft, named
from edgewise.sessions.presence import EXPIRED, LOST

SESSION = ConditionSet(needs=("ClientsReady",), fears=("Degraded",), tells=("Progressing",))


def conditions(draft: Draft) -> list[Condition]:
    waiting = [
        client
        for client, record in draft.clients.items()
        if not record.ready and record.phase != EXPIRED
    ]
    findings = [
        Finding("ClientsReady", False, "Waiting", f"not ready: {named(waiting)}")
        if waiting
        else Finding("ClientsReady", True, "AllReady"),
        Finding("Progressing", bool(waiting), "Waiting" if waiting else "Settled"),
        _degraded(draft),
    ]
    meta = draft.seen.session.metadata
    return SESSION.report(draft.old.conditions, findings, generation=meta.generation, now=draft.now)


def _degraded(draft: Draft) -> Finding:
    if not draft.findings:
        return Finding("Degraded", False, "AsExpected")
    reason = next(iter(draft.findings))
    return Finding("Degraded", True, reason, "; ".join(draft.findings.values())[:1000])


def counts(draft: Draft) -> SessionCounts:
    records = draft.clients.values()
    return SessionCounts(
        clients=len(draft.clients),
        ready=sum(1 for record in records if record.ready),
        pods=len(draft.revision_of),
        lost=sum(1 for record in records if record.phase in (LOST, EXPIRED)),
    )
