"""Gathers what the plan sees from the caches: no request goes to the API server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from edgewise.api.placement import (
    COST_ANNOTATION,
    NAME_LABEL,
    SENTINEL_ANNOTATION,
    LatencyPlacement,
)
from edgewise.kube.kinds.apps import Deployment, ReplicaSet
from edgewise.kube.kinds.core import Node, Pod
from edgewise.kube.objects import Key
from edgewise.placement.board import VoteBoard, value_of
from edgewise.placement.observed import (
    NodeHere,
    Observed,
    PodHere,
    Refusal,
    Role,
    TargetHere,
)
from edgewise.placement.ranking import Value
from edgewise.placement.templates import HASH, HOSTNAME, drains, fits, same_template
from edgewise.runtime.caching.cache import controlling_owner
from edgewise.runtime.watches import CacheView
from edgewise.workloads.deadlines import moment
from edgewise.workloads.pod_trouble import standing_of


class Memory(msgspec.Struct, kw_only=True):
    """What one operator remembers of a placement. After a restart it is found out again."""

    ready_seen: dict[str, float] = {}  # uid of a pod -> when it was first seen ready
    stuck_seen: dict[str, float] = {}  # uid of a pod -> when it was first seen unschedulable
    over_since: float | None = None
    refused: dict[str, Refusal] = {}
    written: float = 0.0  # when the status was last written

    def forget(self, uids: set[str], names: set[str]) -> None:
        """Of pods that are gone."""
        for seen in (self.ready_seen, self.stuck_seen):
            for uid in seen.keys() - uids:
                del seen[uid]
        for name in self.refused.keys() - names:
            del self.refused[name]


def by_target(placement: LatencyPlacement) -> str:
    return f"{placement.metadata.namespace}/{placement.spec.target.name}"


def by_placement(obj: Pod | ReplicaSet) -> str:
    return f"{obj.metadata.namespace}/{obj.metadata.labels.get(NAME_LABEL, '')}"


def newest(replica_sets: Iterable[ReplicaSet], deployment: Deployment) -> ReplicaSet | None:
    """The ReplicaSet of the template that the Deployment has now."""
    template = deployment.spec.get("template") or {}
    return next(
        (each for each in replica_sets if same_template(each.spec.get("template") or {}, template)),
        None,
    )


def replica_sets_of(cache: CacheView, placement: LatencyPlacement) -> list[ReplicaSet]:
    deployment = cache[Deployment].get(
        Key(placement.metadata.namespace, placement.spec.target.name)
    )
    if deployment is None:
        return []
    key = f"{placement.metadata.namespace}/{placement.metadata.name}"
    return [
        each
        for each in cache[ReplicaSet].by(by_placement, key)
        if controlling_owner(each) == deployment.metadata.uid
    ]


def observe(
    placement: LatencyPlacement, cache: CacheView, board: VoteBoard, memory: Memory, now: float
) -> Observed:
    meta = placement.metadata
    deployment = cache[Deployment].get(Key(meta.namespace, placement.spec.target.name))
    sets = replica_sets_of(cache, placement)
    current = newest(sets, deployment) if deployment else None
    spec: dict[str, Any] = ((deployment.spec.get("template") or {}) if deployment else {}).get(
        "spec"
    ) or {}
    pods = [
        _pod(pod, role, placement, memory, now)
        for pod in _labelled(placement, cache)
        if (role := role_of(pod, placement, sets, current)) is not None
    ]
    heard = _heard(placement, board, pods)
    names = {each.name for each in placement.status.sentinels}
    memory.forget({pod.uid for pod in pods}, names)
    return Observed(
        placement=placement,
        target=_target(deployment, sets, current),
        pods=tuple(pods),
        nodes=tuple(
            _node(node)
            for node in sorted(cache[Node], key=lambda node: node.metadata.name)
            if fits(node, spec, placement.spec.nodes.selector)
        ),
        heard=heard,
        probed=board.nodes(placement.key, meta.uid),
        refused=dict(memory.refused),
        over_since=_over_since(placement, pods, heard, memory, now),
        problem=_problem(placement, deployment, cache),
        reporting=board.trouble,
    )


def _target(
    deployment: Deployment | None, sets: list[ReplicaSet], current: ReplicaSet | None
) -> TargetHere | None:
    if deployment is None:
        return None
    replicas = deployment.spec.get("replicas")
    old = [
        each
        for each in sets
        if each is not current and (each.spec.get("replicas") or each.status.replicas)
    ]
    return TargetHere(
        replicas=1 if replicas is None else int(replicas),
        revision=current.metadata.labels.get(HASH, "") if current else "",
        rolling=current is None or bool(old),
        deleting=deployment.metadata.deleting,
    )


def _problem(placement: LatencyPlacement, deployment: Deployment | None, cache: CacheView) -> str:
    meta, spec = placement.metadata, placement.spec
    rivals = cache[LatencyPlacement].by(by_target, by_target(placement))
    first = min(rivals, key=lambda each: (each.metadata.creation_timestamp or "", each.key))
    if first.key != placement.key:
        return (
            f"spec.target: LatencyPlacement {first.metadata.name} looks after Deployment "
            f"{spec.target.name} already; delete one of them"
        )
    if spec.target.kind != "Deployment" or spec.mode == "Estimate":
        return "spec: this is not yet possible; use a Deployment and the mode Sentinel or Probe"
    if deployment is None:
        return ""
    template = deployment.spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if labels.get(NAME_LABEL) != meta.name:
        return (
            f"the pod template of Deployment {spec.target.name} has no label "
            f"{NAME_LABEL}: {meta.name}; add it"
        )
    if (deployment.spec.get("strategy") or {}).get("type") == "Recreate":
        return (
            f"Deployment {spec.target.name} has the strategy Recreate: its pods may not run side "
            "by side, as sentinels do"
        )
    return ""


def _labelled(placement: LatencyPlacement, cache: CacheView) -> list[Pod]:
    key = f"{placement.metadata.namespace}/{placement.metadata.name}"
    return sorted(cache[Pod].by(by_placement, key), key=lambda pod: pod.metadata.name)


def role_of(
    pod: Pod, placement: LatencyPlacement, sets: list[ReplicaSet], current: ReplicaSet | None
) -> Role | None:
    """None: it has the label and is not the target's."""
    owner = controlling_owner(pod)
    if owner == placement.metadata.uid:
        return Role.SENTINEL
    if current is not None and owner == current.metadata.uid:
        return Role.REPLICA
    if owner in {each.metadata.uid for each in sets}:
        return Role.OLD
    ours = pod.metadata.annotations.get(SENTINEL_ANNOTATION) == placement.metadata.uid
    if owner is not None or not ours:
        return None
    mark = pod.metadata.labels.get(HASH)
    adopted_by = any(
        each.metadata.labels.get(HASH) == mark and not each.metadata.deleting for each in sets
    )
    return Role.PROMOTED if adopted_by else Role.STRAY


def _pod(pod: Pod, role: Role, placement: LatencyPlacement, memory: Memory, now: float) -> PodHere:
    meta = pod.metadata
    ended = pod.status.phase in ("Failed", "Succeeded")
    ready = pod.ready and not ended
    if ready:
        # By whichever clock is earlier: that of the node may be ahead of ours.
        first = memory.ready_seen.setdefault(meta.uid, now)
        since = min(first, _since(pod, "Ready", "True") or first)
        ready_at = first if first < since + 1 else since
    else:
        memory.ready_seen.pop(meta.uid, None)
        since = ready_at = 0.0
    stuck = None
    if not pod.node_name and _since(pod, "PodScheduled", "False", "Unschedulable") is not None:
        stuck = memory.stuck_seen.setdefault(meta.uid, now)
    return PodHere(
        name=meta.name,
        uid=meta.uid,
        role=role,
        node=pod.node_name,
        ready=ready,
        ready_since=since,
        ready_seen=ready_at,
        deleting=meta.deleting,
        ended=ended,
        cost=COST_ANNOTATION in meta.annotations,
        drains=drains(pod.spec, placement.spec.drain_seconds),
        unschedulable_since=stuck,
        trouble="" if ready else standing_of(pod).text,
    )


def _since(pod: Pod, kind: str, status: str, reason: str = "") -> float | None:
    for each in pod.status.conditions:
        if each.type == kind and each.status == status and reason in ("", each.reason):
            return moment(each.last_transition_time) or 0.0
    return None


def _node(node: Node) -> NodeHere:
    ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    return NodeHere(
        name=node.metadata.name,
        hostname=node.metadata.labels.get(HOSTNAME, node.metadata.name),
        ready=ready,
        cordoned=node.spec.unschedulable,
    )


def _heard(placement: LatencyPlacement, board: VoteBoard, pods: list[PodHere]) -> dict[str, Value]:
    told = board.pods(placement.key, placement.metadata.uid)
    return {
        pod.uid: value_of(told[pod.uid][0], told[pod.uid][1], pod.node)
        for pod in pods
        if pod.uid in told and pod.node
    }


def _over_since(
    placement: LatencyPlacement,
    pods: list[PodHere],
    heard: dict[str, Value],
    memory: Memory,
    now: float,
) -> float | None:
    limit = placement.spec.threshold
    values = [
        heard[pod.uid].p95_ms for pod in pods if pod.role is Role.REPLICA and pod.uid in heard
    ]
    if limit is None or not values or max(values) <= limit.p95_ms:
        memory.over_since = None
    elif memory.over_since is None:
        memory.over_since = now
    return memory.over_since
