"""What becomes of a claim. Pure."""

from __future__ import annotations

import msgspec

from edgewise.api.tenancy_slices import (
    ClaimState,
    Slice,
    SliceClaim,
    SliceClaimStatus,
    SliceState,
)
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.tenancy.slices.nodes import shortage

BOUND = "Bound"
CONDITIONS = ConditionSet(needs=(BOUND,))


class ClaimSeen(msgspec.Struct, frozen=True, kw_only=True):
    claim: SliceClaim
    # The slice whose claimRef names this claim; of several, the first.
    slice: Slice | None = None
    made: bool = False  # by the operator, for this claim
    used: bool = False  # a SubNamespace names it, whether it is there already or not
    # What nodes there are for a slice that is still to be made.
    free: int = 0
    matching: int = 0
    # Why the quota does not cover the nodes; empty: it does.
    uncovered: str = ""
    # There is a slice of the name that it waits for, or would get, and it is another claim's.
    taken: str = ""


class ClaimPlan(msgspec.Struct, frozen=True, kw_only=True):
    make: bool = False  # a Slice
    withdraw: Slice | None = None  # one that the quota does not cover any more
    end: bool = False  # the claim itself has expired
    status: SliceClaimStatus
    wake_at: float | None = None


def plan_claim(seen: ClaimSeen, now: float) -> ClaimPlan:
    claim, found = seen.claim, seen.slice
    wake_at = None
    if claim.spec.expires_at is not None:
        wake_at = claim.spec.expires_at.timestamp()
        if wake_at <= now:
            return ClaimPlan(end=True, status=claim.status)
    if found is None:
        state, finding, make = _without(seen)
        return ClaimPlan(make=make, status=_status(seen, state, finding, now), wake_at=wake_at)
    withdraw = None
    if seen.made and not seen.used and seen.uncovered and not _in_use(found):
        withdraw = found
    if not found.status.nodes:
        message = _message(found) or "the slice is looking for nodes"
        state, finding = ClaimState.REQUESTED, Finding(BOUND, False, "NodesShort", message)
    else:
        state = ClaimState.EMPLOYED if _in_use(found) else ClaimState.BOUND
        finding = Finding(BOUND, True, state.value, _message(found))
    status = _status(seen, state, finding, now)
    return ClaimPlan(withdraw=withdraw, status=status, wake_at=wake_at)


def _without(seen: ClaimSeen) -> tuple[ClaimState, Finding, bool]:
    claim = seen.claim
    if seen.taken:
        return ClaimState.PENDING, Finding(BOUND, False, "Taken", seen.taken), False
    if claim.spec.mode == "Manual":
        which = f"Slice {claim.spec.slice_name}" if claim.spec.slice_name else "a Slice"
        message = (
            f"waits for an administrator to make {which} with spec.claimRef "
            f"{claim.metadata.namespace}/{claim.metadata.name}"
        )
        return ClaimState.PENDING, Finding(BOUND, False, "WaitsForAdministrator", message), False
    if seen.free < claim.spec.node_count:
        message = shortage(claim.spec, seen.matching, seen.free)
        return ClaimState.PENDING, Finding(BOUND, False, "NodesShort", message), False
    if seen.uncovered:
        finding = Finding(BOUND, False, "QuotaShort", seen.uncovered)
        return ClaimState.PENDING, finding, False
    finding = Finding(BOUND, False, "Requested", "the slice is looking for nodes")
    return ClaimState.REQUESTED, finding, True


def _in_use(found: Slice) -> bool:
    return found.status.state == SliceState.PROVISIONED


def _message(found: Slice) -> str:
    """What keeps the slice from its next state."""
    for each in found.status.conditions:
        if each.status != "True" and each.message:
            return each.message
    return ""


def _status(seen: ClaimSeen, state: ClaimState, finding: Finding, now: float) -> SliceClaimStatus:
    claim, found = seen.claim, seen.slice
    generation = claim.metadata.generation
    return SliceClaimStatus(
        observed_generation=generation,
        state=state.value,
        slice=found.metadata.name if found is not None else "",
        nodes=len(found.status.nodes) if found is not None else 0,
        resources=found.status.resources if found is not None else {},
        conditions=CONDITIONS.report(
            claim.status.conditions, [finding], generation=generation, now=now
        ),
    )
