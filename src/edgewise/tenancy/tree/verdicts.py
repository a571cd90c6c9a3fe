"""How a namespace stands, and what is said of one that waits for its nodes."""

from __future__ import annotations

import msgspec

from edgewise.api.tenancy_slices import ClaimState
from edgewise.tenancy.tree.seen import Branch


class Verdict(msgspec.Struct, frozen=True):
    """How a namespace stands; a reason that is empty means that nothing is wrong."""

    reason: str = ""
    message: str = ""
    done: bool = True  # False: a write of this round has to come first


def sliceless(branch: Branch) -> Verdict:
    name = branch.source.spec.slice_claim if branch.source is not None else None
    if branch.claim is None:
        return Verdict("SliceMissing", f"there is no SliceClaim {name} in {branch.parent}")
    said = claim_says(branch)
    state = branch.claim.status.state or "new"
    return Verdict("SliceMissing", f"SliceClaim {name} is {state}{f': {said}' if said else ''}")


def is_alone(branch: Branch) -> bool:
    return branch.claim is not None and branch.claim.status.state == ClaimState.EMPLOYED


def claim_says(branch: Branch) -> str:
    found = branch.claim.status.conditions if branch.claim is not None else []
    return next((each.message for each in found if each.message), "")
