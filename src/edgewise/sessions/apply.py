"""Carries a plan out, in the order that makes it safe to be cut off after any write."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from edgewise.api.exposure import PortClaim, PortClaimSpec
from edgewise.api.sessions import Session
from edgewise.exposure.port_index import PortClaimSeen, port_claim_name, read_claim
from edgewise.exposure.publishing import RoutePublisher
from edgewise.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import ObjectMeta, OwnerReference
from edgewise.runtime.api import Api
from edgewise.runtime.merge_patch import difference
from edgewise.runtime.retry import TryAgainNow
from edgewise.sessions import claims, names
from edgewise.sessions.observed import ClaimSeen, TemplateSeen
from edgewise.sessions.orders import (
    ApplyChild,
    ClaimPod,
    ClaimPort,
    CreatePod,
    FreePort,
    ReleasePod,
    RemoveChild,
    RemovePod,
)
from edgewise.sessions.plan import Plan
from edgewise.sessions.pods import build_pod
from edgewise.sessions.raw_session import RawSession
from edgewise.sessions.settle import Outcome, Settled, settle
from edgewise.workloads.applying_children import apply_child, remove_child
from edgewise.workloads.children import child_object
from edgewise.workloads.pods_seen import PodSeen
from edgewise.workloads.wording import without_name

_REFUSALS = (BadRequest, Invalid, Forbidden)
# A webhook says no with whatever code it likes, and one that is down is a 500 of the API server.
_WEBHOOKS = re.compile(r"admission webhook .* denied the request|failed calling webhook", re.DOTALL)


def is_refusal(error: ApiError) -> bool:
    """Whether the API server does not want this object as it is, or not now: it is asked again
    after a while, and what else the session needs does not wait for that."""
    unknown = type(error) is ApiError  # 4xx without a meaning of its own here
    return isinstance(error, _REFUSALS) or unknown or bool(_WEBHOOKS.search(str(error)))


class SomebodyWasFaster(TryAgainNow):
    """A pod or port that seemed free has been taken."""


class SessionWriter:
    """Does for one session what its plan says."""

    def __init__(
        self,
        api: Api,
        publisher: RoutePublisher,
        session: Session,
        template: TemplateSeen | None,
        *,
        now: float,
        nonsense: dict[str, Any] | None = None,
    ) -> None:
        """`nonsense` is what stands in the status, if that cannot be read as one."""
        self._nonsense = nonsense
        self._api = api
        self._publisher = publisher
        self._session = session
        self._template = template
        self._now = now
        self._namespace = session.metadata.namespace

    async def carry_out(
        self, plan: Plan, written: Callable[[RawSession, Settled], None]
    ) -> Settled:
        """`written` is told what the API server answered to the status."""
        outcome = await self._prepare(plan)
        settled = settle(plan, await self._publish(plan, outcome))
        patch = settled.patch
        if self._nonsense is not None:
            patch = difference(self._nonsense, msgspec.to_builtins(settled.status))
        if patch is not None:
            written(await self._write(patch), settled)
        await self._clean_up(plan, settled)
        return settled

    # 1. What must be there before the status may name it ----------------------------

    async def _prepare(self, plan: Plan) -> Outcome:
        refused_pods: dict[str, str] = {}
        refused_children: dict[str, str] = {}
        ports: dict[tuple[str, str], PortClaimSeen] = {}

        async def create(order: CreatePod) -> None:
            try:
                await self._create(order)
            except ApiError as error:
                if not is_refusal(error):
                    raise
                refused_pods[order.name] = str(error)

        async def create_in_order(ranks: list[list[CreatePod]]) -> None:
            """Where there is not room for all, the most urgent get it, and nobody else asks."""
            full: dict[str, str] = {}
            for orders in ranks:
                for order in orders:
                    if order.made.name in full:
                        refused_pods[order.name] = full[order.made.name]
                await all_of((create, [o for o in orders if o.made.name not in full]))
                for order in orders:
                    if order.name in refused_pods:
                        words = without_name(refused_pods[order.name], order.name)
                        full.setdefault(order.made.name, words)

        async def port(order: ClaimPort) -> None:
            ports[order.holder, order.port] = await self._claim_port(order)

        async def child(order: ApplyChild) -> None:
            try:
                await self._apply_child(order)
            except ApiError as error:
                if not is_refusal(error):
                    raise
                refused_children[order.name] = f"{order.kind} {order.name}: {error}"

        await all_of(
            (create_in_order, [_by_rank(plan.create)] if plan.create else []),
            (self._claim, plan.claim),
            (port, plan.claim_ports),
            (child, plan.apply),
        )
        return Outcome(
            refused_pods=refused_pods, refused_children=refused_children, claimed_ports=ports
        )

    async def _create(self, order: CreatePod) -> None:
        session, template = self._session, self._template
        labels = {
            names.SESSION: session.metadata.name,
            names.SESSION_UID: session.metadata.uid,
        }
        owner = session.owner_reference()
        if order.pooled and template is not None:
            labels |= {names.TEMPLATE: template.name, names.TEMPLATE_UID: template.uid}
            owner = template_reference(template)
        pod = build_pod(
            order.made,
            order.name,
            self._namespace,
            owner=owner,
            labels=labels,
            ordinal=order.ordinal,
            spot=order.spot,
        )
        try:
            await self._api.create(pod)
        except AlreadyExists:
            # By ourselves before a crash, or by another operator: its number says it is ours.
            await self._api.get(Pod, order.name, self._namespace)

    async def _claim(self, order: ClaimPod) -> None:
        if self._template is None:
            raise SomebodyWasFaster("the template is gone, and its pods with it")
        to = claims.held_by(self._session, order.ordinal)
        if not await self._hand_over(self._template, order.pod, order.lease, to):
            raise SomebodyWasFaster(f"pod {order.pod.name} has been taken")

    async def _claim_port(self, order: ClaimPort) -> PortClaimSeen:
        meta = self._session.metadata
        name = port_claim_name(order.protocol, order.number)
        try:
            if order.existing is not None:
                # A write of ours keeps another operator from freeing it behind our back.
                known = port_claim(name, order.existing)
                patch = {
                    "metadata": {
                        "resourceVersion": order.existing.version,
                        "annotations": {names.CONFIRMED: repr(self._now)},
                    }
                }
                return read_claim(await self._api.patch(known, patch))
            claim = PortClaim(
                api_version=PortClaim.KIND.api_version,
                kind=PortClaim.KIND.kind,
                metadata=ObjectMeta(name=name),
                spec=PortClaimSpec(
                    domain=names.DOMAIN,
                    owner=str(meta.key),
                    uid=meta.uid,
                    holder=order.holder,
                    port=order.port,
                ),
            )
            return read_claim(await self._api.create(claim))
        except (AlreadyExists, Conflict, NotFound) as error:
            raise SomebodyWasFaster(f"port {name} has been taken") from error

    async def _apply_child(self, order: ApplyChild) -> None:
        child = child_object(
            order.manifest,
            digest=order.digest,
            labels={
                names.SESSION: self._session.metadata.name,
                names.SESSION_UID: self._session.metadata.uid,
            },
            owner=self._session.owner_reference(),
        )
        await apply_child(self._api, child, new=order.new)

    async def _publish(self, plan: Plan, outcome: Outcome) -> Outcome:
        routes = [route for publication in plan.publish for route in publication.routes]
        if not routes:
            return outcome
        ack = await self._publisher.publish(names.owner_of_routes(self._session.key), routes)
        return msgspec.structs.replace(
            outcome, acked=ack.acked, rejected=ack.rejected, complaint=ack.complaint
        )

    # 2. The one write that makes it true --------------------------------------------

    async def _write(self, patch: dict[str, Any]) -> RawSession:
        meta = self._session.metadata
        return await self._api.patch(
            RawSession(metadata=meta),
            {"metadata": {"resourceVersion": meta.resource_version}, "status": patch},
            subresource="status",
        )

    # 3. What the status no longer names ---------------------------------------------

    async def _clean_up(self, plan: Plan, settled: Settled) -> None:
        await all_of(
            (self._remove, plan.remove),
            (self._release, plan.release),
            (self._free_port, settled.free_ports),
            (self._remove_child, plan.remove_children),
            (self._drop_claim, plan.drop_claims),
        )

    async def _remove(self, order: RemovePod) -> None:
        if order.pod.deleting:
            return
        if order.pod.pooled and self._template is not None:
            # It may have been given back, and have a new client by now. The Lease stays until
            # the pod is gone; the template's controller looks after both.
            to = claims.retired()
            if not await self._hand_over(self._template, order.pod, order.lease, to):
                raise SomebodyWasFaster(f"pod {order.pod.name} is no longer this session's")
        await self._api.delete(known_pod(order.pod.name, self._namespace, order.pod.uid))

    async def _release(self, order: ReleasePod) -> None:
        if self._template is None:
            return  # the pod goes with its template
        to = claims.free(self._now, order.seconds)
        if not await self._hand_over(self._template, order.pod, order.lease, to):
            raise SomebodyWasFaster(f"pod {order.pod.name} was given back already")

    async def _hand_over(
        self, template: TemplateSeen, pod: PodSeen, lease: ClaimSeen | None, to: claims.Holding
    ) -> bool:
        return await claims.hand_over(self._api, self._namespace, template.uid, pod, lease, to=to)

    async def _free_port(self, order: FreePort) -> None:
        name = port_claim_name(order.claim.protocol, order.claim.number)
        await self._api.delete(port_claim(name, order.claim), unchanged=True)

    async def _remove_child(self, order: RemoveChild) -> None:
        await remove_child(self._api, order.child, self._namespace)

    async def _drop_claim(self, claim: ClaimSeen) -> None:
        await self._api.delete(claims.known(claim, self._namespace), unchanged=True)


def _by_rank(orders: Iterable[CreatePod]) -> list[list[CreatePod]]:
    ranks: dict[int, list[CreatePod]] = {}
    for order in orders:
        ranks.setdefault(order.rank, []).append(order)
    return [ranks[rank] for rank in sorted(ranks)]


def port_claim(name: str, seen: PortClaimSeen) -> PortClaim:
    return PortClaim(
        metadata=ObjectMeta(name=name, uid=seen.uid, resource_version=seen.version),
        spec=PortClaimSpec(domain="", owner="", uid="", holder="", port=""),
    )


def known_pod(name: str, namespace: str, uid: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid))


def template_reference(template: TemplateSeen) -> OwnerReference:
    return OwnerReference(
        api_version=names.TEMPLATE_KIND.api_version,
        kind=names.TEMPLATE_KIND.kind,
        name=template.name,
        uid=template.uid,
        controller=True,
        block_owner_deletion=True,
    )


async def all_of(*parts: tuple[Callable[[Any], Awaitable[None]], Iterable[Any]]) -> None:
    """Carry out all orders at once; when some fail, the others are finished first."""
    pending = [do(order) for do, orders in parts for order in orders]
    if len(pending) == 1:
        await pending[0]
        return
    results = await asyncio.gather(*pending, return_exceptions=True)
    failures = [each for each in results if isinstance(each, BaseException)]
    # Whoever has to look again at once need not be told what else went wrong.
    for failure in failures:
        if isinstance(failure, TryAgainNow):
            raise failure
    for failure in failures:
        raise failure
