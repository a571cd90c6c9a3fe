"""What is refused or warned of before it is stored, and the pause that pods get before they end.

The CRD's own rules say what one object shows by itself. Here is what needs the target, its
Services, the nodes and the author. The plan looks again: what slips through moves nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from edgewise.api.placement import DRAIN_ANNOTATION, NAME_LABEL, LatencyPlacement, seconds
from edgewise.kube.client import Client
from edgewise.kube.errors import Forbidden, KubeError, NotFound
from edgewise.kube.kinds.admission import LabelSelector, MatchCondition
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.authorization import (
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from edgewise.kube.kinds.core import Node, PersistentVolumeClaim, Pod, Service
from edgewise.kube.kinds.scheduling import PriorityClass
from edgewise.kube.objects import Key
from edgewise.placement.model import convergence_seconds
from edgewise.placement.observe import by_target
from edgewise.placement.templates import fits, with_drain
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.webhooks.admission import (
    AdmissionRequest,
    Allowed,
    Denied,
    Mutated,
    UserInfo,
    Verdict,
)
from edgewise.runtime.webhooks.serving import Webhook

SPEC_CHANGED = "oldObject == null || object.spec != oldObject.spec"
PATIENCE = 3.0
REVIEW_SECONDS = 5
# A pod is never held up for longer than this, and never kept from starting.
POD_SECONDS = 1


class Admission:
    def __init__(self, client: Client, caches: SharedCaches) -> None:
        self._client = client
        self._placements = caches.of(LatencyPlacement)
        self._deployments = caches.of(Deployment)
        self._nodes = caches.of(Node)

    def webhooks(self) -> list[Webhook[Any]]:
        return [
            Webhook(
                name="latencyplacements.placement.edgewise.dev",
                kind=LatencyPlacement,
                review=self.review,
                timeout_seconds=REVIEW_SECONDS,
                match_conditions=(
                    MatchCondition(name="the-spec-changed", expression=SPEC_CHANGED),
                ),
            ),
            Webhook(
                name="pods.placement.edgewise.dev",
                kind=Pod,
                review=self.drain,
                mutates=True,
                operations=("CREATE",),
                fail_closed=False,
                timeout_seconds=POD_SECONDS,
                object_selector=LabelSelector(
                    match_expressions=[{"key": NAME_LABEL, "operator": "Exists"}]
                ),
            ),
        ]

    # Placements ---------------------------------------------------------------------

    async def review(self, request: AdmissionRequest[LatencyPlacement]) -> Verdict:
        placement = request.object
        if placement is None or placement.metadata.deleting:
            return Allowed()
        namespace = request.namespace
        rival = self._rival(placement, namespace)
        if rival:
            return Denied(
                f"spec.target: LatencyPlacement {rival} looks after Deployment "
                f"{placement.spec.target.name} already; choose another target, or delete it"
            )
        try:
            async with asyncio.timeout(PATIENCE):
                denied = await self._may(request.user, namespace)
                return denied or await self._review_target(placement, namespace)
        except (KubeError, TimeoutError) as error:
            why = str(error) or f"there was no answer within {PATIENCE:.0f} s"
            return Denied(f"spec.target: it could not be looked at ({why}); try again", code=503)

    async def _review_target(self, placement: LatencyPlacement, namespace: str) -> Verdict:
        deployment = await self._deployment(namespace, placement.spec.target.name)
        if deployment is None:
            return Denied(
                f"spec.target: there is no Deployment {placement.spec.target.name} in the "
                f"namespace {namespace}; create it first"
            )
        nodes = list(self._nodes) or (await self._client.list(Node)).items
        sentence = next(problems(placement, deployment, nodes), "")
        sentence = sentence or await self._volumes(placement, deployment)
        if sentence:
            return Denied(sentence, code=422)
        return Allowed(tuple(await self._warnings(placement, deployment)))

    def _rival(self, placement: LatencyPlacement, namespace: str) -> str:
        key = f"{namespace}/{placement.spec.target.name}"
        names = [each.metadata.name for each in self._placements.by(by_target, key)]
        return next((name for name in names if name != placement.metadata.name), "")

    async def _deployment(self, namespace: str, name: str) -> Deployment | None:
        """One that was made just now may not be in the cache."""
        known = self._deployments.get(Key(namespace, name))
        if known is not None:
            return known
        try:
            return await self._client.get(Deployment, name, namespace)
        except NotFound:
            return None

    async def _may(self, user: UserInfo, namespace: str) -> Denied | None:
        """The author has pods made, so it must be allowed to make some."""
        asked = SubjectAccessReview.named("")
        asked.spec = SubjectAccessReviewSpec(
            user=user.username,
            uid=user.uid,
            groups=user.groups or [],
            extra=user.extra or {},
            resource_attributes=ResourceAttributes(
                namespace=namespace, verb="create", group="", resource="pods", name=""
            ),
        )
        try:
            answer = await self._client.create(asked)
        except Forbidden:
            return None  # as with --no-check-authors: the operator is not to ask
        if answer.status.allowed:
            return None
        return Denied(
            f"spec: {user.username} may not create pods in the namespace {namespace}, and so may "
            "not have sentinels made by the operator: ask for that right"
        )

    async def _volumes(self, placement: LatencyPlacement, deployment: Deployment) -> str:
        """A volume that one node alone may mount keeps a sentinel from every other node."""
        namespace = deployment.metadata.namespace
        for volume in _pod_spec(deployment).get("volumes") or []:
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if not claim:
                continue
            try:
                found = await self._client.get(PersistentVolumeClaim, claim, namespace)
            except (NotFound, Forbidden):
                continue
            modes = found.spec.get("accessModes") or []
            if not {"ReadWriteMany", "ReadOnlyMany"} & set(modes):
                return (
                    f"spec.target: the volume {claim} of Deployment {placement.spec.target.name} "
                    f"is {', '.join(modes)}: no pod on another node could mount it, so nothing "
                    "can be measured there"
                )
        return ""

    async def _warnings(self, placement: LatencyPlacement, deployment: Deployment) -> list[str]:
        found: list[str] = []
        labels = _labels(deployment)
        services = (await self._client.list(Service, deployment.metadata.namespace)).items
        fronts = [
            each
            for each in services
            if each.spec.selector and each.spec.selector.items() <= labels.items()
        ]
        if not fronts:
            found.append(
                f"no Service selects the pods of {placement.spec.target.name}: clients that "
                "balance by themselves must find the sentinels, too"
            )
        for each in fronts:
            if each.spec.session_affinity == "ClientIP":
                found.append(
                    f"Service {each.metadata.name} has sessionAffinity ClientIP: its clients stay "
                    "at one pod, and never measure a sentinel"
                )
        name = _pod_spec(deployment).get("priorityClassName")
        if name:
            found += await self._preempts(str(name))
        return found

    async def _preempts(self, name: str) -> list[str]:
        try:
            found = await self._client.get(PriorityClass, name)
        except (NotFound, Forbidden):
            return []
        if (found.value or 0) <= 0 or found.preemption_policy == "Never":
            return []
        return [
            f"the priority class {name} preempts: sentinels would take the place of other pods, too"
        ]

    # Pods ---------------------------------------------------------------------------

    def drain(self, request: AdmissionRequest[Pod]) -> Verdict:
        pod = request.object
        name = pod.metadata.labels.get(NAME_LABEL, "") if pod else ""
        placement = self._placements.get(Key(request.namespace, name)) if name else None
        if placement is None:
            return Allowed()
        document = request.document
        wait = placement.spec.drain_seconds
        changed = with_drain(document.get("spec") or {}, wait)
        if changed is None:
            return Allowed()
        meta = dict(document.get("metadata") or {})
        meta["annotations"] = {**(meta.get("annotations") or {}), DRAIN_ANNOTATION: str(wait)}
        return Mutated({**document, "metadata": meta, "spec": changed})


def _pod_spec(deployment: Deployment) -> dict[str, Any]:
    spec = (deployment.spec.get("template") or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _labels(deployment: Deployment) -> dict[str, str]:
    template = deployment.spec.get("template") or {}
    return (template.get("metadata") or {}).get("labels") or {}


def problems(
    placement: LatencyPlacement, deployment: Deployment, nodes: list[Node]
) -> Iterator[str]:
    """What of a placement cannot work with its target and the nodes there are. Pure."""
    spec, name = placement.spec, placement.spec.target.name
    if _labels(deployment).get(NAME_LABEL) != placement.metadata.name:
        yield (
            f"spec.target: the pod template of Deployment {name} needs the label "
            f"{NAME_LABEL}: {placement.metadata.name}"
        )
    strategy = (deployment.spec.get("strategy") or {}).get("type")
    if strategy == "Recreate":
        yield (
            f"spec.target: Deployment {name} has the strategy Recreate: its pods may not run side "
            "by side, as sentinels do"
        )
    eligible = [node for node in nodes if fits(node, _pod_spec(deployment), spec.nodes.selector)]
    if not eligible:
        yield "spec.nodes.selector: no node has these labels and takes the target's pods"
    replicas = deployment.spec.get("replicas")
    r = 1 if replicas is None else int(replicas)
    if len(eligible) > r and spec.sentinels > len(eligible) - r:
        yield (
            f"spec.sentinels: {spec.sentinels} are more than the {len(eligible) - r} nodes that "
            f"are left beside {r} replicas"
        )
    needs = convergence_seconds(len(eligible), r, spec.sentinels, seconds(spec.observation))
    if seconds(spec.trigger) <= needs:
        yield (
            f"spec.trigger: {spec.trigger} is not longer than a search, which takes {needs:.0f} s "
            f"by the model with {len(eligible)} nodes and {spec.sentinels} sentinels"
        )
    if spec.max_overload_percent and spec.max_overload_percent * r < (r + 1) * 100:
        yield (
            f"spec.maxOverloadPercent: {spec.max_overload_percent} leaves no room for a sentinel; "
            f"it takes {-(-(r + 1) * 100 // r)} at least"
        )
