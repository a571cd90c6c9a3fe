"""The objects that a fresh cluster needs before anybody uses it. Pure: dicts out."""

from __future__ import annotations

from typing import Any

from edgewise.local.control_plane.identities import USERS
from edgewise.local.control_plane.programs import SIMULATED
from edgewise.local.layout import ClusterRecord
from edgewise.local.network.policies.names import ENFORCER
from edgewise.local.spec import LocalClusterSpec

_ZONES = "abc"
_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeProxyVersion",
)
_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "create", "update", "patch", "delete"]
_KWOK_RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": _READ},
    {"apiGroups": [""], "resources": ["pods"], "verbs": [*_READ, "update", "patch", "delete"]},
    {
        "apiGroups": [""],
        "resources": ["nodes/status", "pods/status"],
        "verbs": ["update", "patch"],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": _WRITE},
    {
        "apiGroups": ["", "events.k8s.io"],
        "resources": ["events"],
        "verbs": ["create", "update", "patch"],
    },
]
_COREDNS_RULES = [
    {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": _READ},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": _READ},
]

_ENFORCER_RULES = [
    {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": _READ},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": _READ},
]


def first_objects(record: ClusterRecord) -> list[dict[str, Any]]:
    """Applied once the API server answers, in this order."""
    objects: list[dict[str, Any]] = []
    if record.spec.simulated_nodes:
        objects += _grant("kwok", _KWOK_RULES)
    if record.spec.real:
        objects += [*_grant("coredns", _COREDNS_RULES), *_cluster_dns(record)]
        objects += _grant(ENFORCER, _ENFORCER_RULES)
    return objects


def _grant(component: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A role, given to the user that the component's certificate names."""
    group = "rbac.authorization.k8s.io"
    name = f"edgewise:{component}"
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": USERS[component]}],
        },
    ]


def _cluster_dns(record: ClusterRecord) -> list[dict[str, Any]]:
    """The usual Service for DNS; behind it CoreDNS beside the control plane, not in a pod."""
    ports = [("dns", "UDP", 53), ("dns-tcp", "TCP", 53), ("metrics", "TCP", 9153)]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": "kube-dns",
                "namespace": "kube-system",
                "labels": {"k8s-app": "kube-dns"},
            },
            "spec": {
                "clusterIP": str(record.addresses.dns_service),
                "ports": [
                    {"name": name, "protocol": protocol, "port": port, "targetPort": port}
                    for name, protocol, port in ports
                ],
            },
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "kube-dns",
                "namespace": "kube-system",
                "labels": {"kubernetes.io/service-name": "kube-dns"},
            },
            "addressType": "IPv4",
            "endpoints": [
                {
                    "addresses": [str(record.addresses.control_plane)],
                    "conditions": {"ready": True},
                }
            ],
            "ports": [
                {"name": name, "protocol": protocol, "port": port} for name, protocol, port in ports
            ],
        },
    ]


def node_labels(spec: LocalClusterSpec, number: int) -> dict[str, str]:
    """Where the node claims to be: zones take turns within the region."""
    zone = _ZONES[(number - 1) % len(_ZONES)]
    return {
        "topology.kubernetes.io/region": spec.region,
        "topology.kubernetes.io/zone": f"{spec.region}-{zone}",
    }


def simulated_node(record: ClusterRecord, number: int, now: str) -> dict[str, Any]:
    """A node that kwok keeps alive. It is born ready: each write less counts for a thousand.

    Beside real nodes it is tainted, so that only pods that ask for it land there;
    in a cluster of simulated nodes alone every pod may.
    """
    spec = record.spec
    name = spec.simulated_names[number - 1]
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "500", "ephemeral-storage": "1Ti"}
    taints = [{"key": SIMULATED, "value": "true", "effect": "NoSchedule"}] if spec.real else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                SIMULATED: "true",
                **node_labels(spec, number),
            },
        },
        "spec": {"taints": taints},
        "status": {
            "phase": "Running",
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [
                {"type": "InternalIP", "address": record.api_host},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [
                {
                    "type": kind,
                    "status": "True" if kind == "Ready" else "False",
                    "reason": "Simulated",
                    "message": "kept so by kwok",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
                for kind in _CONDITIONS
            ],
            "nodeInfo": dict.fromkeys(_NODE_INFO, "")
            | {"architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "simulated"},
        },
    }
