"""What is said of a pool once its plan was carried out. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from edgewise.api.sessions import SessionTemplateStatus
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.sessions.draft import named
from edgewise.sessions.pool.plan import PoolPlan
from edgewise.workloads.wording import CONDITION, shorten

# Warm pods that the API server refused are asked for again after so long.
ASK_AGAIN = 10.0

TEMPLATE = ConditionSet(needs=("WarmPodsReady",), fears=("Degraded",), tells=("InUse",))


class PoolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server would not have, in its words."""

    refused_pods: Mapping[str, str] = {}  # by revision
    refused_children: Mapping[str, str] = {}


class PoolSettled(msgspec.Struct, frozen=True, kw_only=True):
    status: SessionTemplateStatus
    # What is worth telling a person, because it was not said before: a reason, and words.
    warning: tuple[str, str] | None
    deadline: float | None


def settle_pool(plan: PoolPlan, outcome: PoolOutcome) -> PoolSettled:
    meta, old = plan.template.metadata, plan.template.status
    degraded = _degraded(plan, outcome)
    before = next((each for each in old.conditions if each.type == "Degraded"), None)
    news = degraded.holds and (before is None or before.message != degraded.message)
    findings = [_warmth(plan, degraded), degraded]
    if meta.deleting:
        who = named(plan.sessions)
        findings.append(
            Finding("InUse", True, "SessionsLeft", f"it is deleted when these are gone: {who}")
        )
    moments = [] if plan.deadline is None else [plan.deadline]
    if outcome.refused_pods:
        moments.append(plan.now + ASK_AGAIN)
    return PoolSettled(
        status=SessionTemplateStatus(
            observed_generation=meta.generation,
            next=max(plan.next, old.next),
            warm=plan.warm,
            sessions=len(plan.sessions),
            public_ports=plan.public_ports,
            conditions=TEMPLATE.report(
                old.conditions, findings, generation=meta.generation, now=plan.now
            ),
        ),
        warning=(degraded.reason, degraded.message) if news else None,
        deadline=min(moments, default=None),
    )


def _degraded(plan: PoolPlan, outcome: PoolOutcome) -> Finding:
    if outcome.refused_children:
        words = shorten("; ".join(outcome.refused_children.values()), CONDITION)
        return Finding("Degraded", True, "ResourceRefused", words)
    if outcome.refused_pods:
        words = f"warm pods are refused: {next(iter(outcome.refused_pods.values()))}"
        return Finding("Degraded", True, "PodsRefused", words)
    if plan.trouble:
        return Finding("Degraded", True, "PodsNotStarting", f"warm pods: {plan.trouble}")
    if plan.resting:
        # Why they wait was said when they failed.
        for each in plan.template.status.conditions:
            if each.type == "Degraded" and each.reason in ("PodsRefused", "PodsNotStarting"):
                return Finding("Degraded", each.status == "True", each.reason, each.message)
    return Finding("Degraded", False, "AsExpected")


def _warmth(plan: PoolPlan, degraded: Finding) -> Finding:
    missing = plan.wanted - plan.warm
    if missing <= 0:
        return Finding("WarmPodsReady", True, "AllReady")
    words = f"{missing} warm pods are not ready"
    if degraded.holds and degraded.reason != "ResourceRefused":
        reason = plan.reason or degraded.reason
        return Finding("WarmPodsReady", False, reason, f"{words}: {degraded.message}")
    return Finding("WarmPodsReady", False, "Starting", words)
