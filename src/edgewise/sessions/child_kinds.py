"""The kinds of objects that accompany a session or a template, and what is read of them."""

from __future__ import annotations

from typing import Any, ClassVar

from edgewise.kube.objects import Kind, Object, ObjectMeta, OwnerReference
from edgewise.sessions import names
from edgewise.sessions.exposure import GATEWAY_API
from edgewise.sessions.observed import ChildSeen


class Child(Object):
    """An object that is made from a manifest. What is not metadata stays as it is."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


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


class HTTPRoute(Child):
    KIND: ClassVar = Kind(GATEWAY_API, "v1", "HTTPRoute", "httproutes")


class TCPRoute(Child):
    KIND: ClassVar = Kind(GATEWAY_API, "v1", "TCPRoute", "tcproutes")


class UDPRoute(Child):
    KIND: ClassVar = Kind(GATEWAY_API, "v1", "UDPRoute", "udproutes")


class ListenerSet(Child):
    KIND: ClassVar = Kind(GATEWAY_API, "v1", "ListenerSet", "listenersets")


BOUND_KINDS: tuple[type[Child], ...] = (
    ChildService,
    ChildDeployment,
    ChildStatefulSet,
    ChildConfigMap,
    ChildJob,
)
GATEWAY_KINDS: tuple[type[Child], ...] = (HTTPRoute, TCPRoute, UDPRoute, ListenerSet)
CHILD_KINDS = {kind.KIND.kind: kind for kind in (*BOUND_KINDS, *GATEWAY_KINDS)}


def see_child(child: Child) -> ChildSeen:
    meta = child.metadata
    service = isinstance(child, ChildService)
    return ChildSeen(
        kind=child.KIND.kind,
        name=meta.name,
        uid=meta.uid,
        digest=meta.annotations.get(names.DIGEST, ""),
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
            labels={**(given.get("labels") or {}), **labels, names.CHILD: "true"},
            annotations={**(given.get("annotations") or {}), names.DIGEST: digest},
            owner_references=[owner],
        ),
        **content,
    )


def child_named(child: ChildSeen, namespace: str) -> Child:
    return CHILD_KINDS[child.kind](
        metadata=ObjectMeta(name=child.name, namespace=namespace, uid=child.uid)
    )
