"""Pods made of a target's pod template. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.api.placement import DRAIN_ANNOTATION, SENTINEL_ANNOTATION, LatencyPlacement
from edgewise.kube.kinds.core import Node, Pod
from edgewise.kube.objects import ObjectMeta

HASH = "pod-template-hash"
HOSTNAME = "kubernetes.io/hostname"
# Kubernetes' own grace period, where a template names none.
GRACE_SECONDS = 30
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """As the Deployment controller compares: the hash it adds itself is left out."""
    return _without_hash(one) == _without_hash(other)


def _without_hash(template: Mapping[str, Any]) -> dict[str, Any]:
    meta = dict(template.get("metadata") or {})
    meta["labels"] = {
        name: value for name, value in (meta.get("labels") or {}).items() if name != HASH
    }
    return {**template, "metadata": {k: v for k, v in meta.items() if v not in (None, {})}}


def sentinel_pod(
    placement: LatencyPlacement,
    template: Mapping[str, Any],
    name: str,
    hostnames: Sequence[str],
) -> Pod:
    """A copy of the target's pod that its Service sends traffic to and no ReplicaSet counts."""
    meta = template.get("metadata") or {}
    labels = {key: str(value) for key, value in (meta.get("labels") or {}).items() if key != HASH}
    annotations = {key: str(value) for key, value in (meta.get("annotations") or {}).items()}
    spec = within(template.get("spec") or {}, hostnames)
    seconds = placement.spec.drain_seconds
    # The webhook does the same, and may be away.
    if (drained := with_drain(spec, seconds)) is not None:
        spec = drained
        annotations[DRAIN_ANNOTATION] = str(seconds)
    pod = Pod.named(name, placement.metadata.namespace, spec=spec)
    pod.metadata = ObjectMeta(
        name=name,
        namespace=placement.metadata.namespace,
        labels=labels,
        annotations={**annotations, SENTINEL_ANNOTATION: placement.metadata.uid},
        owner_references=[placement.owner_reference()],
    )
    return pod


def within(spec: Mapping[str, Any], hostnames: Sequence[str]) -> dict[str, Any]:
    """The spec for a pod that may run on these nodes only.

    Terms of a node affinity are alternatives: the nodes are added to every one of them. A term
    without any requirement fits no node, and stays so.
    """
    made: dict[str, Any] = copy.deepcopy(dict(spec))
    made.pop("nodeName", None)
    wanted = {"key": HOSTNAME, "operator": "In", "values": list(hostnames)}
    affinity = made.setdefault("affinity", {}) or {}
    made["affinity"] = affinity
    node = affinity.get("nodeAffinity") or {}
    affinity["nodeAffinity"] = node
    terms = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms")
    if not terms:
        node[_REQUIRED] = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        return made
    for term in terms:
        if term.get("matchExpressions") or term.get("matchFields"):
            term["matchExpressions"] = [*(term.get("matchExpressions") or []), wanted]
    return made


def with_drain(spec: Mapping[str, Any], seconds: int) -> dict[str, Any] | None:
    """The spec with a pause before each container ends; None where nothing is to be changed.

    A container that has a preStop of its own keeps it. The grace period grows by as much: a
    sleep beyond it makes a pod invalid.
    """
    containers = spec.get("containers")
    if not seconds or not isinstance(containers, list):
        return None
    bare = [
        each
        for each in containers
        if isinstance(each, dict) and not (each.get("lifecycle") or {}).get("preStop")
    ]
    if not bare:
        return None
    made: dict[str, Any] = copy.deepcopy(dict(spec))
    for each in made["containers"]:
        lifecycle = dict(each.get("lifecycle") or {})
        if not lifecycle.get("preStop"):
            each["lifecycle"] = {**lifecycle, "preStop": {"sleep": {"seconds": seconds}}}
    grace = spec.get("terminationGracePeriodSeconds")
    made["terminationGracePeriodSeconds"] = (GRACE_SECONDS if grace is None else grace) + seconds
    return made


def drains(spec: Mapping[str, Any], seconds: int) -> bool:
    """Whether every container of a pod waits before it ends."""
    return not seconds or all(
        (each.get("lifecycle") or {}).get("preStop") for each in spec.get("containers") or []
    )


def fits(node: Node, spec: Mapping[str, Any], selector: Mapping[str, str]) -> bool:
    """Whether a pod may be on a node, as far as labels and taints say it plainly.

    What else decides, affinities and room, kube-scheduler says.
    """
    labels = node.metadata.labels
    needs = {**(spec.get("nodeSelector") or {}), **selector}
    if any(labels.get(name) != value for name, value in needs.items()):
        return False
    tolerations = spec.get("tolerations") or []
    return all(
        any(_tolerates(each, taint.key, taint.value, taint.effect) for each in tolerations)
        for taint in node.spec.taints
        if taint.effect in ("NoSchedule", "NoExecute")
        # These come and go with the node's state, which is looked at by itself.
        and not taint.key.startswith("node.kubernetes.io/")
    )


def _tolerates(toleration: Mapping[str, Any], key: str, value: str, effect: str) -> bool:
    if toleration.get("effect") not in (None, "", effect):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != key:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == value
