"""Carries a plan out: first the status, then the orders. Each write may be the last one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import msgspec

from edgewise.api.placement import (
    COST_ANNOTATION,
    SENTINEL_ANNOTATION,
    LatencyPlacement,
    LatencyPlacementStatus,
    Sentinel,
)
from edgewise.kube.errors import AlreadyExists, BadRequest, Forbidden, Invalid, NotFound
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Key
from edgewise.placement.draft import Promote
from edgewise.placement.observed import Observed, PodHere, Refusal
from edgewise.placement.plan import Plan
from edgewise.placement.templates import HASH, sentinel_pod
from edgewise.runtime.api import Api
from edgewise.runtime.caching.cache import Cache, controlling_owner
from edgewise.runtime.merge_patch import difference
from edgewise.workloads.wording import shorten, without_name

COST = "controller.kubernetes.io/pod-deletion-cost"
OURS = "-1000"
# What may be written a little later, because nothing follows from it.
VOLATILE = ("ranking", "message")
# Nothing but numbers has changed: so often while a search runs, and when it does not.
WHILE_SEARCHING = 1.0
WHILE_CALM = 10.0


async def clean(api: Api, pods: Iterable[Pod], hashes: set[str | None]) -> None:
    """Take back what a placement that is gone left on pods: costs, and pods that nobody has."""
    for pod in pods:
        meta = pod.metadata
        if meta.deleting:
            continue
        orphan = SENTINEL_ANNOTATION in meta.annotations and controlling_owner(pod) is None
        if orphan and meta.labels.get(HASH) not in hashes:
            await api.delete(pod)
        elif COST_ANNOTATION in meta.annotations:
            had = meta.annotations[COST_ANNOTATION] or None
            body = {"metadata": {"annotations": {COST: had, COST_ANNOTATION: None}}}
            with contextlib.suppress(NotFound):
                await api.patch(pod, body)


class Writer:
    """Does for one placement what its plan says."""

    def __init__(
        self, api: Api, pods: Cache[Pod], placement: LatencyPlacement, template: dict[str, Any]
    ) -> None:
        self._api = api
        self._pods = pods
        self._placement = placement
        self._template = template
        self._namespace = placement.metadata.namespace
        self.refused: dict[str, Refusal] = {}

    async def carry_out(self, plan: Plan, seen: Observed) -> None:
        # What no round needs goes before the next one comes: R + S pods run, and not more.
        for pod in plan.delete:
            await self._delete(pod)
        hostnames = {node.name: node.hostname for node in seen.nodes}
        for sentinel in plan.create:
            await self._create(sentinel, hostnames)
        for pod in plan.cost:
            await self.put_cost(pod)
        for order in plan.promote:
            await self._promote(order)
        for pod in plan.uncost:
            await self.take_cost(pod)

    async def write_status(self, status: LatencyPlacementStatus) -> None:
        """Guarded by the version that was read: of two operators, one decides."""
        before = msgspec.to_builtins(self._placement.status)
        patch = difference(before, msgspec.to_builtins(status))
        if patch:
            version = self._placement.metadata.resource_version
            body = {"metadata": {"resourceVersion": version}, "status": patch}
            await self._api.patch(self._placement, body, subresource="status")

    async def _create(self, sentinel: Sentinel, hostnames: dict[str, str]) -> None:
        nodes = [hostnames.get(node, node) for node in sentinel.nodes]
        pod = sentinel_pod(self._placement, self._template, sentinel.name, nodes)
        try:
            await self._api.create(pod)
        except AlreadyExists:
            found = await self._api.get(Pod, sentinel.name, self._namespace)
            if controlling_owner(found) != self._placement.metadata.uid:
                words = f"there is another pod {sentinel.name}, which is no sentinel"
                self.refused[sentinel.name] = Refusal(False, words, taken=True)
        except (BadRequest, Forbidden, Invalid) as error:  # webhooks of others answer 400, too
            words = shorten(without_name(str(error), sentinel.name))
            self.refused[sentinel.name] = Refusal("exceeded quota" in str(error), words)

    async def put_cost(self, pod: PodHere) -> None:
        known = self._known(pod)
        if known is None or COST_ANNOTATION in known.metadata.annotations:
            return
        had = known.metadata.annotations.get(COST, "")
        await self._annotate(known, {COST: OURS, COST_ANNOTATION: had})

    async def take_cost(self, pod: PodHere) -> None:
        known = self._known(pod)
        if known is None or COST_ANNOTATION not in known.metadata.annotations:
            return
        had = known.metadata.annotations[COST_ANNOTATION] or None
        await self._annotate(known, {COST: had, COST_ANNOTATION: None})

    async def _annotate(self, pod: Pod, annotations: dict[str, str | None]) -> None:
        with contextlib.suppress(NotFound):
            await self._api.patch(pod, {"metadata": {"annotations": annotations}})

    async def _promote(self, order: Promote) -> None:
        """In one patch, so that no moment exists in which the pod is nobody's and unknown."""
        pod = self._known(order.pod)
        if pod is None:
            return
        mine = self._placement.metadata.uid
        others = [
            msgspec.to_builtins(each) for each in pod.metadata.owner_references if each.uid != mine
        ]
        body = {
            "metadata": {
                "resourceVersion": pod.metadata.resource_version,
                "ownerReferences": others,
                "labels": {HASH: order.revision},
            }
        }
        await self._api.patch(pod, body)

    async def _delete(self, pod: PodHere) -> None:
        known = self._known(pod)
        if known is not None:
            await self._api.delete(known)

    def _known(self, pod: PodHere) -> Pod | None:
        found = self._pods.get(Key(self._namespace, pod.name))
        return found if found is not None and found.metadata.uid == pod.uid else None


def worth_writing(
    before: LatencyPlacementStatus, after: LatencyPlacementStatus, *, age: float, searching: bool
) -> bool:
    """Whether a status has to be written now: numbers that only moved a little may wait."""
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    solid_old = {name: value for name, value in old.items() if name not in VOLATILE}
    solid_new = {name: value for name, value in new.items() if name not in VOLATILE}
    if solid_old != solid_new:
        return True
    if age < (WHILE_SEARCHING if searching else WHILE_CALM):
        return False
    return _moved(before, after)


def _moved(before: LatencyPlacementStatus, after: LatencyPlacementStatus) -> bool:
    old = {each.node: each for each in before.ranking}
    if old.keys() != {each.node for each in after.ranking}:
        return True
    return any(
        abs(each.rtt_ms - old[each.node].rtt_ms) > max(1.0, 0.1 * old[each.node].rtt_ms)
        for each in after.ranking
    )
