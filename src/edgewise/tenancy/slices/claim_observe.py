"""What the plan of a claim sees, from the caches."""

from __future__ import annotations

from collections.abc import Iterable

from edgewise.api.tenancy import CLUSTER_UID, MANAGED, SubNamespace
from edgewise.api.tenancy_slices import ClaimRef, Slice, SliceClaim, SliceSpec
from edgewise.kube.kinds.core import Namespace, Node, ResourceQuota
from edgewise.runtime.watches import CacheView
from edgewise.tenancy.names import KEPT, child_of
from edgewise.tenancy.quota.quantities import NotAQuantity, amounts
from edgewise.tenancy.quota.reading import ledger_of
from edgewise.tenancy.slices.claim_plan import ClaimSeen
from edgewise.tenancy.slices.coverage import Held, uncovered
from edgewise.tenancy.slices.names import slice_name
from edgewise.tenancy.slices.nodes import picked, together
from edgewise.tenancy.slices.observe import by_claim, claim_of, made_for_a_claim


def slice_of_claim(claim: SliceClaim, cache: CacheView) -> Slice | None:
    named = cache[Slice].by(by_claim, (claim.metadata.namespace, claim.metadata.name))
    mine = [
        each for each in named if not each.metadata.deleting and claim_of(each, cache) is not None
    ]
    return min(mine, key=lambda each: each.metadata.name, default=None)


def observe_claim(claim: SliceClaim, cache: CacheView) -> ClaimSeen:
    found = slice_of_claim(claim, cache)
    free, matching = picked(cache[Node].all(), claim.spec)
    wanted = together(free[: claim.spec.node_count])
    if found is not None and found.status.nodes:
        wanted = _read(found.status.resources)
    quota = cache[ResourceQuota].find(KEPT, claim.metadata.namespace)
    settled = _is_settled(claim, quota, cache)
    older = [] if settled else list(_older(claim, quota, cache))
    why = "" if settled else uncovered(wanted, claim.spec.node_count, quota, older)
    return ClaimSeen(
        claim=claim,
        slice=found,
        made=found is not None and made_for_a_claim(found),
        used=any(True for _ in _users(claim, cache)),
        free=len(free),
        matching=matching,
        uncovered=why,
        taken=_taken(claim, found, cache),
    )


def _taken(claim: SliceClaim, found: Slice | None, cache: CacheView) -> str:
    dynamic = claim.spec.mode == "Dynamic"
    name = slice_name(claim) if dynamic else claim.spec.slice_name
    there = cache[Slice].find(name) if name and found is None else None
    if there is None or there.metadata.deleting:
        return ""
    if not dynamic and there.spec.claim_ref is None:
        return ""  # it waits for an administrator, as it should
    return f"spec.sliceName: Slice {name} is there, and is not for this claim"


def _users(claim: SliceClaim, cache: CacheView) -> Iterable[SubNamespace]:
    for each in cache[SubNamespace].all(claim.metadata.namespace):
        if each.spec.slice_claim == claim.metadata.name and not each.metadata.deleting:
            yield each


def _is_settled(claim: SliceClaim, quota: ResourceQuota | None, cache: CacheView) -> bool:
    """Whether a subnamespace holds the nodes in its own quota: ledger and quota are one object."""
    if quota is None:
        return False
    home = cache[Namespace].find(claim.metadata.namespace)
    cluster = home.metadata.labels.get(CLUSTER_UID, "") if home is not None else ""
    ledger = ledger_of(quota)
    return any(child_of(each, cluster) in ledger for each in _users(claim, cache))


def _older(claim: SliceClaim, quota: ResourceQuota | None, cache: CacheView) -> Iterable[Held]:
    mine = order_of(claim)
    for each in cache[SliceClaim].all(claim.metadata.namespace):
        if each.metadata.uid == claim.metadata.uid or each.spec.mode != "Dynamic":
            continue
        found = slice_of_claim(each, cache)
        # A claim without a slice holds nothing; one with a slice came before one without.
        newer = order_of(each) > mine and slice_of_claim(claim, cache) is not None
        if found is None or newer or _is_settled(each, quota, cache):
            continue
        nodes = _read(found.status.resources)
        if not nodes:
            free, _ = picked(cache[Node].all(), each.spec)
            nodes = together(free[: each.spec.node_count])
        yield Held(claim=each.metadata.name, order=order_of(each), nodes=nodes)


def order_of(claim: SliceClaim) -> tuple[str, str]:
    return claim.metadata.creation_timestamp or "", claim.metadata.name


def _read(written: dict[str, str]) -> dict[str, int]:
    try:
        return amounts(written)
    except NotAQuantity:
        return {}


def slice_for(claim: SliceClaim) -> Slice:
    meta = claim.metadata
    made = Slice.named(
        slice_name(claim),
        spec=SliceSpec(
            selector=claim.spec.selector,
            node_count=claim.spec.node_count,
            resources=claim.spec.resources,
            claim_ref=ClaimRef(namespace=meta.namespace, name=meta.name, uid=meta.uid),
        ),
    )
    made.metadata.labels = {MANAGED: "true"}
    return made
