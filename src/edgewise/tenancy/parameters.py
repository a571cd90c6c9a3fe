"""What a cluster's administrator says about tenants: annotations of one ClusterRole without rules,
read by policies and operator.

The chart writes it from its values; a local cluster has the defaults.

It is no ConfigMap, because the API server stops its watch of ConfigMaps with the last policy that
has one for its parameters, and never starts it again: a chart that is removed and installed once
more would find the old ones, or none, until the API server starts again. Its authorizer always
watches ClusterRoles.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

import msgspec

from edgewise.api.tenancy import GROUP
from edgewise.kube.kinds.rbac import ClusterRole
from edgewise.kube.objects import ObjectMeta

NAME = "edgewise:tenancy-parameters"

# Private and link-local networks: where pods, services, nodes and metadata services live.
PRIVATE = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "fc00::/7",
    "fe80::/10",
)
DEFAULTS: dict[str, str] = {
    # Who besides system:masters may write what only the operator writes.
    "operators": "system:serviceaccount:edgewise-system:edgewise-operator,"
    "system:serviceaccount:edgewise-system:edgewise-uninstall",
    # Addresses that are not outside of the cluster.
    "ranges": ",".join(PRIVATE),
    # The level of Pod Security in every namespace of a tenant.
    "podSecurity": "baseline",
    # Where the gateways run, by which clients reach pods.
    "gatewayNamespace": "edgewise-system",
    # What the pods of tenants run in, such as gvisor or kata; empty: what the node has.
    "runtimeClass": "",
    # What pods of tenants may ask for, by name.
    "priorityClasses": "",
    "schedulers": "default-scheduler",
    "tolerations": "node.kubernetes.io/not-ready,node.kubernetes.io/unreachable,"
    "edgewise.dev/simulated",
    # true: every image is pulled anew, so that no tenant runs another one's private image.
    "pullAlways": "false",
}


def annotation(name: str) -> str:
    return f"{GROUP}/{name}"


def annotations_of(told: Mapping[str, str]) -> dict[str, str]:
    return {annotation(name): value for name, value in told.items()}


PARAMETERS = ClusterRole(
    api_version=ClusterRole.KIND.api_version,
    kind=ClusterRole.KIND.kind,
    metadata=ObjectMeta(name=NAME, annotations=annotations_of(DEFAULTS)),
)


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What of it the operator needs."""

    ranges: tuple[str, ...] = PRIVATE
    pod_security: str = DEFAULTS["podSecurity"]
    gateway_namespace: str = DEFAULTS["gatewayNamespace"]
    runtime_class: str = DEFAULTS["runtimeClass"]


def parameters_in(annotations: Mapping[str, str]) -> Parameters:
    """A range that is none is left out here; the policies refuse what they cannot read."""
    told = {name: annotations.get(annotation(name), value) for name, value in DEFAULTS.items()}
    ranges = []
    for each in told["ranges"].split(","):
        try:
            ranges.append(str(ipaddress.ip_network(each.strip(), strict=False)))
        except ValueError:
            continue
    return Parameters(
        ranges=tuple(ranges),
        pod_security=told["podSecurity"] or DEFAULTS["podSecurity"],
        gateway_namespace=told["gatewayNamespace"],
        runtime_class=told["runtimeClass"],
    )
