"""What the session's conditions and counts say."""

from __future__ import annotations

from edgewise.api.sessions import SessionCounts
from edgewise.kube.conditions import Condition
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.sessions.digest import EXPIRED, REFUSED
from edgewise.sessions.draft import Draft, named

SESSION = ConditionSet(needs=("ClientsReady",), fears=("Degraded",), tells=("Progressing",))


def conditions(draft: Draft) -> list[Condition]:
    unsettled = draft.digest.pending | draft.digest.away
    waiting = [
        client
        for client in unsettled
        if not (record := draft.clients[client]).ready and record.phase != EXPIRED
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
    digest = draft.digest
    return SessionCounts(
        clients=len(draft.clients),
        ready=digest.ready,
        pods=len(draft.revision_of),
        lost=sum(1 for client in digest.away if draft.clients[client].phase != REFUSED),
    )
