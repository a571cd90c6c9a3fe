"""The conditions of what people of a tree look at."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.api.tenancy import (
    SubNamespace,
    Tenant,
    TenantResourceQuota,
    TenantResourceQuotaStatus,
)
from edgewise.kube.conditions import Condition
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.tenancy.tree.seen import Branch, Uncopied
from edgewise.tenancy.tree.verdicts import Verdict

ESTABLISHED = "Established"
INHERITED = "Inherited"
CONDITIONS = ConditionSet(needs=(ESTABLISHED,), tells=(INHERITED,))
# Of SubNamespaces whose copies follow their originals.
HEIRS = ConditionSet(needs=(ESTABLISHED, INHERITED))


def conditions_of(
    about: Tenant | SubNamespace,
    verdict: Verdict,
    state: str,
    now: float,
    copies: Finding | None = None,
) -> list[Condition]:
    findings = [
        Finding(ESTABLISHED, not verdict.reason, verdict.reason or state, verdict.message),
        *((copies,) if copies is not None else ()),
    ]
    kind = CONDITIONS if copies is None else HEIRS
    return kind.report(
        about.status.conditions, findings, generation=about.metadata.generation, now=now
    )


def inherited(branch: Branch, uncopied: Mapping[str, Uncopied]) -> Finding | None:
    """Whether all that it inherits continuously is there; None: it does not."""
    if not branch.follows:
        return None
    lacks = uncopied.get(branch.name)
    if lacks is None or lacks.on_purpose:
        return Finding(INHERITED, True, "Copied", lacks.why if lacks is not None else "")
    return Finding(INHERITED, False, "NotCopied", lacks.why)


def unheeded_status(
    quota: TenantResourceQuota, source: SubNamespace, now: float
) -> TenantResourceQuotaStatus:
    finding = Finding(
        ESTABLISHED,
        False,
        "Subtenant",
        "nothing follows from it: a subtenant's quota is its parent's grant, in "
        f"spec.resources of SubNamespace {source.key}",
    )
    generation = quota.metadata.generation
    return TenantResourceQuotaStatus(
        observed_generation=generation,
        conditions=CONDITIONS.report(
            quota.status.conditions, [finding], generation=generation, now=now
        ),
    )
