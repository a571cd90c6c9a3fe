"""The controller of claims. One worker: what one claim takes of a quota, the next one lacks."""

from __future__ import annotations

from collections.abc import Iterable

from edgewise.api.tenancy import MANAGED, TENANT_UID, SubNamespace
from edgewise.api.tenancy_slices import ClaimState, Slice, SliceClaim, SliceClaimStatus
from edgewise.kube.errors import AlreadyExists, NotFound
from edgewise.kube.kinds.core import Namespace, Node, ResourceQuota
from edgewise.kube.objects import Key, Object
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.retry import TryAgainNow
from edgewise.runtime.watches import CacheView, mapped, nobody, read
from edgewise.tenancy.slices.claim_observe import observe_claim, slice_for
from edgewise.tenancy.slices.claim_plan import plan_claim
from edgewise.tenancy.slices.nodes import facts
from edgewise.workloads.node_changes import NodeChanges


def claim_of_slice(found: Slice, _: CacheView) -> Iterable[Key]:
    ref = found.spec.claim_ref
    return () if ref is None else (Key(ref.namespace, ref.name),)


def claims_beside(obj: Object, cache: CacheView) -> Iterable[Key]:
    return [each.key for each in cache[SliceClaim].all(obj.metadata.namespace)]


class SliceClaimController(Controller[SliceClaim]):
    workers = 1
    wakes_on_status = False

    def __init__(self) -> None:
        self._nodes = NodeChanges(facts)
        self.watches = (
            # It cannot be made a second time.
            mapped(Slice, claim_of_slice, unread=nobody),
            mapped(Node, self.claims_that_wait),
            mapped(SubNamespace, claims_beside),
            mapped(ResourceQuota, claims_beside, labels=f"{MANAGED}=true"),
            read(Namespace, labels=TENANT_UID),
        )

    def claims_that_wait(self, node: Node, cache: CacheView) -> Iterable[Key]:
        """If something changed for them: each would look at all nodes."""
        if not self._nodes.matters(node.key, cache[Node].get(node.key)):
            return ()
        waiting = ("", ClaimState.PENDING)
        return [each.key for each in cache[SliceClaim] if each.status.state in waiting]

    async def reconcile(self, claim: SliceClaim) -> Requeue | None:
        if claim.metadata.deleting:
            return None
        decided = plan_claim(observe_claim(claim, self.cache), self.clock())
        if decided.end:
            self.events.normal(claim, "Expired", "expiresAt is over: the nodes are shared again")
            await self.api.delete(claim)
            return None
        if decided.withdraw is not None:
            await self.api.delete(decided.withdraw)
        if decided.make:
            try:
                await self.api.create(slice_for(claim))
            except AlreadyExists as error:
                raise TryAgainNow(str(error)) from error
        if decided.withdraw is not None or decided.make:
            decided = plan_claim(observe_claim(claim, self.cache), self.clock())
        try:
            await self._say(claim, decided.status)
        except NotFound:
            return None  # its maker has deleted it meanwhile
        return Requeue.at(decided.wake_at)

    async def _say(self, claim: SliceClaim, status: SliceClaimStatus) -> None:
        before = claim.status.state
        await self.api.write_status(claim, status)
        if status.state != before:
            message = status.conditions[0].message
            self.events.normal(claim, status.state, message or f"was {before or 'new'}")
