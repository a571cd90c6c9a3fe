"""What the session's conditions and counts say."""

from __future__ import annotations

from edgewise.api.sessions import ClientPhase, SessionCounts
from edgewise.kube.conditions import Condition
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.sessions.draft import named
from edgewise.sessions.prospect import Prospect
from edgewise.workloads.wording import CONDITION, shorten

SESSION = ConditionSet(needs=("ClientsReady",), fears=("Degraded",), tells=("Progressing",))


def conditions(prospect: Prospect) -> list[Condition]:
    unsettled = prospect.digest.pending | prospect.digest.away
    waiting = [
        client
        for client in unsettled
        if not (record := prospect.clients[client]).ready and record.phase != ClientPhase.EXPIRED
    ]
    findings = [
        Finding("ClientsReady", False, "Waiting", f"not ready: {named(waiting)}")
        if waiting
        else Finding("ClientsReady", True, "AllReady"),
        Finding("Progressing", bool(waiting), "Waiting" if waiting else "Settled"),
        _degraded(prospect),
    ]
    meta = prospect.seen.session.metadata
    return SESSION.report(
        prospect.old.conditions, findings, generation=meta.generation, now=prospect.now
    )


def _degraded(prospect: Prospect) -> Finding:
    if not prospect.findings:
        return Finding("Degraded", False, "AsExpected")
    reason, words = next(iter(prospect.findings)), "; ".join(prospect.findings.values())
    return Finding("Degraded", True, reason, shorten(words, CONDITION))


def counts(prospect: Prospect) -> SessionCounts:
    digest = prospect.digest
    return SessionCounts(
        clients=len(prospect.clients),
        ready=digest.ready,
        pods=len(digest.revision_of),
        disconnected=sum(
            1 for client in digest.away if prospect.clients[client].phase != ClientPhase.REFUSED
        ),
    )
