"""The kinds of objects that accompany what a domain defines, and what is read of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from edgewise.kube.kinds.gateway_api import GATEWAY_KINDS
from edgewise.kube.objects import Kind, ObjectMeta, OpenObject, OwnerReference


class WantedChild(msgspec.Struct, frozen=True):
    """An object that should be there. The manifest is built only where it is needed."""

    kind: str
    name: str
    digest: str
    build: Callable[[], Manifest]
    readable: bool = False  # its name is not an unguessable one


CHILD = "edgewise.dev/child"  # marks all objects that accompany what a domain defines
DIGEST = "edgewise.dev/digest"

Manifest = dict[str, Any]


class ChildSeen(msgspec.Struct, frozen=True, kw_only=True):
    """An object that was made from a manifest, and the digest of that manifest."""

    kind: str
    name: str
    uid: str
    digest: str
    # By port name: the node port, and where a load balancer or a Gateway listens.
    node_ports: Mapping[str, int] = {}
    ingress: str = ""
    accepted: bool = False


Child = OpenObject  # made from a manifest, so nothing of it has to be understood


class ChildService(Child):
    KIND: ClassVar = Kind("", "v1", "Service", "services")


class ChildDeployment(Child):
    KIND: ClassVar = Kind("apps", "v1", "Deployment", "deployments")


class ChildStatefulSet(Child):
    KIND: ClassVar = Kind("apps", "v1", "StatefulSet", "statefulsets")


class ChildJob(Child):
    KIND: ClassVar = Kind("batch", "v1", "Job", "jobs")


class ChildConfigMap(Child):
    KIND: ClassVar = Kind("", "v1", "ConfigMap", "configmaps")

    data: dict[str, Any] = {}
    binary_data: dict[str, Any] = {}
    immutable: bool = False


BOUND_KINDS: tuple[type[Child], ...] = (
    ChildService,
    ChildDeployment,
    ChildStatefulSet,
    ChildConfigMap,
    ChildJob,
)
CHILD_KINDS = {kind.KIND.kind: kind for kind in (*BOUND_KINDS, *GATEWAY_KINDS)}


def see_child(child: Child) -> ChildSeen:
    meta = child.metadata
    service = isinstance(child, ChildService)
    return ChildSeen(
        kind=child.KIND.kind,
        name=meta.name,
        uid=meta.uid,
        digest=meta.annotations.get(DIGEST, ""),
        node_ports=_node_ports(child) if service else {},
        ingress=_ingress(child) if service else "",
        accepted=isinstance(child, GATEWAY_KINDS) and _accepted(child),
    )


def _node_ports(service: Child) -> dict[str, int]:
    return {
        str(port.get("name", "")): int(port["nodePort"])
        for port in service.spec.get("ports") or []
        if port.get("nodePort")
    }


def _ingress(service: Child) -> str:
    balancer = service.status.get("loadBalancer") or {}
    for place in balancer.get("ingress") or []:
        return str(place.get("ip") or place.get("hostname") or "")
    return ""


def _accepted(child: Child) -> bool:
    """Routes say it for each of their parents, listeners for themselves."""
    groups = [parent.get("conditions") or [] for parent in child.status.get("parents") or []]
    if child.status.get("conditions"):
        groups.append(child.status["conditions"])
    return bool(groups) and all(_all_true(group) for group in groups)


def _all_true(conditions: list[dict[str, Any]]) -> bool:
    status = {each.get("type"): each.get("status") for each in conditions}
    wrong = [status.get(name) == "False" for name in ("ResolvedRefs", "Programmed")]
    return status.get("Accepted") == "True" and not any(wrong)


def child_object(
    manifest: dict[str, Any], *, digest: str, labels: dict[str, str], owner: OwnerReference
) -> Child:
    """What a manifest says, marked as belonging to its owner."""
    kind = CHILD_KINDS[manifest["kind"]]
    given = manifest["metadata"]
    kept = ("spec", "data", "immutable")
    content: dict[str, Any] = {name: manifest[name] for name in kept if name in manifest}
    if "binaryData" in manifest:
        content["binary_data"] = manifest["binaryData"]
    return kind(
        api_version=kind.KIND.api_version,
        kind=kind.KIND.kind,
        metadata=ObjectMeta(
            name=given["name"],
            namespace=given["namespace"],
            labels={**(given.get("labels") or {}), **labels, CHILD: "true"},
            annotations={**(given.get("annotations") or {}), DIGEST: digest},
            owner_references=[owner],
        ),
        **content,
    )


def child_named(child: ChildSeen, namespace: str) -> Child:
    return CHILD_KINDS[child.kind](
        metadata=ObjectMeta(name=child.name, namespace=namespace, uid=child.uid)
    )
