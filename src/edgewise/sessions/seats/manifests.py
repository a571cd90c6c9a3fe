"""The objects that lead to a seat where our own gateway does not: pure builders.

Every manifest is complete, so server-side apply makes the object exactly this.
"""

from __future__ import annotations

from collections.abc import Iterable

from edgewise.api.exposure import Port
from edgewise.api.sessions import Revision
from edgewise.exposure.site import Site
from edgewise.kube.kinds.gateway_api import GATEWAY_API
from edgewise.sessions import names
from edgewise.workloads.children import Manifest

SERVICE_TYPES = {"NodePort": "NodePort", "LoadBalancer": "LoadBalancer"}


def seat_service(name: str, namespace: str, pod: str, revision: Revision) -> Manifest:
    """A Service that leads to one pod; another pod takes its place by the selector."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "type": SERVICE_TYPES.get(revision.exposure, "ClusterIP"),
            "selector": {names.POD: pod},
            "ports": [
                {
                    "name": port.name,
                    "port": port.port,
                    "targetPort": port.port,
                    "protocol": transport(port),
                }
                for port in revision.ports
            ],
        },
    }


def http_route(
    name: str, namespace: str, gateway: str, *, service: str, port: Port, path: str
) -> Manifest:
    """`path` of the Gateway leads to the Service, which sees the rest of the path only."""
    return _route(
        "HTTPRoute",
        name,
        namespace,
        {"parentRefs": [_parent(gateway)]},
        {
            "matches": [{"path": {"type": "PathPrefix", "value": path}}],
            "filters": [
                {
                    "type": "URLRewrite",
                    "urlRewrite": {
                        "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
                    },
                }
            ],
            "timeouts": {"request": "0s"},
            "backendRefs": [{"name": service, "port": port.port}],
        },
    )


def listener_set(name: str, namespace: str, gateway: str, port: Port, number: int) -> Manifest:
    """One more listener for a Gateway, which holds only 64 by itself."""
    return {
        "apiVersion": f"{GATEWAY_API}/v1",
        "kind": "ListenerSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parentRef": _parent(gateway),
            "listeners": [
                {
                    "name": port.name,
                    "port": number,
                    "protocol": port.protocol,
                    "allowedRoutes": {"namespaces": {"from": "Same"}},
                }
            ],
        },
    }


def port_route(name: str, namespace: str, listeners: str, service: str, port: Port) -> Manifest:
    """A TCPRoute or UDPRoute from a listener to the Service."""
    parent = {
        "group": GATEWAY_API,
        "kind": "ListenerSet",
        "name": listeners,
        "sectionName": port.name,
    }
    return _route(
        f"{port.protocol}Route",
        name,
        namespace,
        {"parentRefs": [parent]},
        {"backendRefs": [{"name": service, "port": port.port}]},
    )


def gateway_api_trouble(site: Site, ports: Iterable[Port]) -> str:
    """Why the Gateway API cannot lead to these ports; empty if it can."""
    if not site.gateway:
        return (
            "exposure GatewayAPI needs a Gateway to hang routes on: start the operator with "
            "--gateway-api NAMESPACE/NAME"
        )
    needed = {f"{port.protocol}Route" for port in ports}
    if needed - {"HTTPRoute"}:
        needed.add("ListenerSet")
    missing = sorted(needed - site.gateway_kinds)
    if not missing:
        return ""
    return (
        f"the cluster does not know the kind {' and '.join(missing)} of {GATEWAY_API}/v1: install "
        "the CRDs of the Gateway API, then restart the operator"
    )


def transport(port: Port) -> str:
    return "UDP" if port.protocol == "UDP" else "TCP"


def _route(kind: str, name: str, namespace: str, spec: Manifest, rule: Manifest) -> Manifest:
    return {
        "apiVersion": f"{GATEWAY_API}/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, "rules": [rule]},
    }


def _parent(gateway: str) -> Manifest:
    namespace, _, name = gateway.rpartition("/")
    parent = {"group": GATEWAY_API, "kind": "Gateway", "name": name}
    return {**parent, "namespace": namespace} if namespace else parent
