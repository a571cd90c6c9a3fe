"""Carries the plan of a pool out. Each write may be the last: the next plan finds what it left."""

from __future__ import annotations

from collections.abc import Iterable

from edgewise.api.sessions import SessionTemplate
from edgewise.kube.errors import AlreadyExists, ApiError
from edgewise.kube.kinds.core import Pod
from edgewise.runtime.api import Api
from edgewise.sessions import claims, names
from edgewise.sessions.apply import all_of, is_refusal, known_pod, template_reference
from edgewise.sessions.observed import ClaimSeen, TemplateSeen
from edgewise.sessions.orders import ApplyChild, CreatePod
from edgewise.sessions.pods import build_pod
from edgewise.sessions.pool.plan import Clean, PoolPlan, Restore, Retire
from edgewise.sessions.pool.settle import PoolOutcome
from edgewise.workloads.applying_children import apply_child, remove_child
from edgewise.workloads.children import ChildSeen, child_object
from edgewise.workloads.pods_seen import PodSeen
from edgewise.workloads.wording import shorten, without_name


class PoolWriter:
    """Does for one template what the plan of its pool says."""

    def __init__(self, api: Api, template: SessionTemplate, *, now: float) -> None:
        self._api = api
        self._template = template
        self._now = now
        self._namespace = template.metadata.namespace

    async def carry_out(self, plan: PoolPlan) -> PoolOutcome:
        refused: dict[str, str] = {}

        async def create(order: CreatePod) -> None:
            try:
                await self._create(order)
            except ApiError as error:
                if not is_refusal(error):
                    raise
                words = shorten(without_name(str(error), order.name))
                refused.setdefault(order.made.name, words)

        await all_of(
            (create, plan.create),
            (self._retire, plan.retire),
            (self._remove, plan.remove),
            (self._drop, plan.drop),
            (self._restore, plan.restore),
            (self._clean, plan.clean),
        )
        return PoolOutcome(refused_pods=refused)

    async def tend_children(self, plan: PoolPlan) -> PoolOutcome:
        """What is bound to all sessions of the template."""
        refused: dict[str, str] = {}
        for order in plan.apply:
            try:
                await self._apply_child(order)
            except ApiError as error:
                if not is_refusal(error):
                    raise
                refused[order.name] = f"{order.kind} {order.name}: {error}"
        await self.remove_children(order.child for order in plan.remove_children)
        return PoolOutcome(refused_children=refused)

    async def remove_children(self, children: Iterable[ChildSeen]) -> None:
        for child in children:
            await remove_child(self._api, child, self._namespace)

    async def _create(self, order: CreatePod) -> None:
        meta = self._template.metadata
        seen = TemplateSeen(name=meta.name, uid=meta.uid)
        pod = build_pod(
            order.made,
            order.name,
            self._namespace,
            owner=template_reference(seen),
            labels={names.TEMPLATE: meta.name, names.TEMPLATE_UID: meta.uid},
            ordinal=order.ordinal,
            spot=order.spot,
        )
        try:
            await self._api.create(pod)
        except AlreadyExists:
            await self._api.get(Pod, order.name, self._namespace)

    async def _retire(self, order: Retire) -> None:
        """First out of everybody's reach, then removed."""
        if await self._hand_over(order.pod, order.lease, claims.retired()):
            await self._remove(order.pod)

    async def _remove(self, pod: PodSeen) -> None:
        await self._api.delete(known_pod(pod.name, self._namespace, pod.uid))

    async def _drop(self, lease: ClaimSeen) -> None:
        await self._api.delete(claims.known(lease, self._namespace), unchanged=True)

    async def _restore(self, order: Restore) -> None:
        await self._hand_over(order.pod, order.lease, claims.free(self._now, order.seconds))

    async def _clean(self, order: Clean) -> None:
        to = claims.cleaning(self._now, order.seconds, order.restarts)
        await self._hand_over(order.pod, order.lease, to)

    async def _hand_over(self, pod: PodSeen, lease: ClaimSeen | None, to: claims.Holding) -> bool:
        uid = self._template.metadata.uid
        return await claims.hand_over(self._api, self._namespace, uid, pod, lease, to=to)

    async def _apply_child(self, order: ApplyChild) -> None:
        meta = self._template.metadata
        child = child_object(
            order.manifest,
            digest=order.digest,
            labels={names.TEMPLATE: meta.name, names.TEMPLATE_UID: meta.uid},
            owner=self._template.owner_reference(),
        )
        await apply_child(self._api, child, new=order.new)
