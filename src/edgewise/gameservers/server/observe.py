"""Gathers what the plan of a server needs from the shared caches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from edgewise.api.games import Allocation, Server
from edgewise.gameservers import names
from edgewise.gameservers.retirement import hold_of
from edgewise.gameservers.server.manifest import read_ports
from edgewise.gameservers.server.observed import NodeFacts, Observed, PodFacts, Taken
from edgewise.kube.kinds.admission import LabelSelector
from edgewise.kube.kinds.core import Namespace, Node, Pod
from edgewise.kube.kinds.policy import PodDisruptionBudget
from edgewise.kube.objects import Key
from edgewise.kube.selecting import selects
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.watches import CacheView
from edgewise.workloads.node_loss import lost_since
from edgewise.workloads.pod_trouble import Standing, standing_of

_NO_STANDING = Standing("", "")
_BEST_ADDRESS = ("ExternalIP", "InternalIP")


def observe(server: Server, cache: CacheView) -> Observed:
    meta = server.metadata
    pod = cache[Pod].get(Key(meta.namespace, names.pod_of(meta.name)))
    node = cache[Node].get(Key("", pod.node_name)) if pod is not None and pod.node_name else None
    namespace = cache[Namespace].get(Key("", meta.namespace))
    return Observed(
        server=server,
        pod=None if pod is None else see_pod(pod, node, orphan=not _owned(pod, server)),
        node=see_node(node),
        taken=_taken(server, cache[Allocation]),
        namespace_ends=namespace is not None and namespace.metadata.deleting,
        fleet=fleet_of(server),
        budget=cache[PodDisruptionBudget].get(Key(meta.namespace, names.BUDGET)) is not None,
        other_budget=_other_budget(pod, cache) if pod is not None else "",
    )


def _other_budget(pod: Pod, cache: CacheView) -> str:
    found = [
        budget.metadata.name
        for budget in cache[PodDisruptionBudget].all(pod.metadata.namespace)
        if budget.metadata.name != names.BUDGET and covers(budget, pod.metadata.labels)
    ]
    return min(found, default="")


def covers(budget: PodDisruptionBudget, labels: Mapping[str, str]) -> bool:
    """Without a selector a budget covers nothing, with an empty one everything."""
    selector = budget.spec.get("selector")
    return selector is not None and selects(msgspec.convert(selector, LabelSelector), labels)


def fleet_of(server: Server) -> str:
    return next(
        (each.name for each in server.metadata.owner_references if each.kind == "Fleet"), ""
    )


def _owned(pod: Pod, server: Server) -> bool:
    return any(each.uid == server.metadata.uid for each in pod.metadata.owner_references)


def _taken(server: Server, allocations: Cache[Allocation]) -> Taken | None:
    hold, named = hold_of(server, allocations), allocations.get(server.key)
    if hold.allocation is None and hold.retired:
        return Taken(uid="", retired=True)
    if named is None:
        return None
    return Taken(uid=named.metadata.uid, retired=hold.retired, stale=hold.allocation is None)


def see_node(node: Node | None) -> NodeFacts:
    if node is None:
        return NodeFacts()
    by_type = {each.type: each.address for each in node.status.addresses}
    return NodeFacts(
        address=next((by_type[kind] for kind in _BEST_ADDRESS if kind in by_type), ""),
        lost_since=lost_since(node),
        cordoned=node.spec.unschedulable,
    )


def see_pod(pod: Pod, node: Node | None, *, orphan: bool = False) -> PodFacts:
    status = pod.status
    ended = status.phase in ("Failed", "Succeeded")
    ready = pod.ready and not ended
    standing = _NO_STANDING if ready else standing_of(pod)
    disrupted = next(
        (
            f"{each.reason}: {each.message}"
            for each in status.conditions
            if each.type == "DisruptionTarget" and each.status == "True"
        ),
        "",
    )
    return PodFacts(
        uid=pod.metadata.uid,
        ip=status.pod_ip,
        host_ip=status.host_ip,
        node=pod.node_name,
        running=status.phase == "Running",
        ready=ready,
        ended=ended,
        succeeded=status.phase == "Succeeded",
        deleting=pod.metadata.deleting,
        started=status.phase not in ("", "Pending"),
        orphan=orphan,
        disrupted=disrupted,
        evicted_by=untolerated(node, pod.spec) if node is not None else "",
        reason=standing.reason,
        text=standing.text,
        trouble=standing.trouble,
        no_port=standing.reason == "Unschedulable" and "free ports" in standing.text,
        host_ports=read_ports(pod.metadata.annotations.get(names.PORTS, "")),
    )


def untolerated(node: Node, spec: Mapping[str, Any]) -> str:
    """A NoExecute taint of the node that the pod does not tolerate for good."""
    tolerations: Iterable[Mapping[str, Any]] = spec.get("tolerations") or ()
    for taint in node.spec.taints:
        if taint.effect != "NoExecute":
            continue
        if not any(_tolerates(each, taint.key, taint.value) for each in tolerations):
            return taint.key
    return ""


def _tolerates(toleration: Mapping[str, Any], key: str, value: str) -> bool:
    if toleration.get("effect") not in (None, "", "NoExecute"):
        return False
    if toleration.get("tolerationSeconds") is not None:
        return False
    if toleration.get("key") not in (None, "", key):
        return False
    exists = toleration.get("operator") == "Exists"
    return exists or (toleration.get("key") == key and toleration.get("value", "") == value)
