"""What only a program can say of slices: how many nodes there are, and what quota covers."""

from __future__ import annotations

from typing import Any

from edgewise.api.tenancy import GROUP, MANAGED, SLICE
from edgewise.api.tenancy_slices import NodesWanted, Slice, SliceClaim
from edgewise.kube.kinds.core import Node, ResourceQuota
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.webhooks.admission import (
    AdmissionRequest,
    Allowed,
    Denied,
    Verdict,
)
from edgewise.runtime.webhooks.serving import Webhook
from edgewise.tenancy.names import KEPT
from edgewise.tenancy.slices import pinning
from edgewise.tenancy.slices.coverage import uncovered
from edgewise.tenancy.slices.nodes import fits, in_order, shortage, together


class Reviewing:
    """Refuses what can come to nothing as things stand. The controllers judge the same: while
    nobody answers here, a claim is taken, and waits."""

    def __init__(self, caches: SharedCaches) -> None:
        self._nodes = caches.of(Node)
        self._quotas = caches.of(ResourceQuota, Selection(labels=f"{MANAGED}=true"))

    def slice(self, asked: AdmissionRequest[Slice]) -> Verdict:
        return self._enough(asked.object.spec) if asked.object is not None else Allowed()

    def claim(self, asked: AdmissionRequest[SliceClaim]) -> Verdict:
        claim = asked.object
        if claim is None:
            return Allowed()
        verdict = self._enough(claim.spec)
        if isinstance(verdict, Denied) or claim.spec.mode == "Manual":
            return verdict
        quota = self._quotas.find(KEPT, asked.namespace)
        wanted = together(self._matching(claim.spec)[: claim.spec.node_count])
        sentence = uncovered(wanted, claim.spec.node_count, quota, ())
        return Denied(sentence) if sentence else Allowed()

    def _matching(self, wanted: NodesWanted) -> list[Node]:
        return [each for each in in_order(self._nodes) if fits(each, wanted)]

    def _enough(self, wanted: NodesWanted) -> Verdict:
        matching = self._matching(wanted)
        if len(matching) >= wanted.node_count:
            return Allowed()
        free = [each for each in matching if SLICE not in each.metadata.labels]
        return Denied(shortage(wanted, len(matching), len(free)))


def webhooks(caches: SharedCaches) -> tuple[Webhook[Any], ...]:
    reviewing = Reviewing(caches)
    return (
        Webhook(
            name=f"review.slices.{GROUP}",
            kind=Slice,
            review=reviewing.slice,
            operations=("CREATE",),
            fail_closed=False,
        ),
        Webhook(
            name=f"review.sliceclaims.{GROUP}",
            kind=SliceClaim,
            review=reviewing.claim,
            operations=("CREATE",),
            fail_closed=False,
        ),
        pinning.webhook(caches),
    )
