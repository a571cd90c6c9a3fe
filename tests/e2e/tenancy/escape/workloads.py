"""What people of a tenant try by pods, services and network policies."""

from __future__ import annotations

import copy
from typing import Any

from edgewise.api.tenancy import GROUP, TENANT_UID
from edgewise.kube.kinds.admission import MutatingAdmissionPolicy
from edgewise.tenancy import parameters
from edgewise.tenancy.policies.runtime_class import NAME as SETS_CLASS
from edgewise.tenancy.slices.pinning import NAME as PINS_PODS
from tests.e2e.tenancy.escape.sending import (
    COLLABORATOR,
    EVERYBODY,
    KEEPERS,
    NS,
    OUTSIDER,
    OWNER,
    PSA,
    RBAC_SAYS,
    WORKERS,
    Attempt,
    delete,
    each_by,
    get,
    patch,
    policy,
    post,
)
from tests.e2e.tenancy.scene import RUNTIME

# Pods -------------------------------------------------------------------------------------

PODS = f"{NS}/acme/pods"


def pod(containers: dict[str, Any] | None = None, meta: Any = None, **spec: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "none", **copy.deepcopy(containers or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tried", **(meta or {})},
        "spec": {"runtimeClassName": RUNTIME, "containers": [main], **spec},
    }


def _volume(**source: Any) -> dict[str, Any]:
    return pod(volumes=[{"name": "v", **source}])


def _ephemeral(**fields: Any) -> dict[str, Any]:
    container = {"name": "debug", "image": "none", **fields}
    return {"spec": {"ephemeralContainers": [container]}}


def pod_attempts() -> list[Attempt]:
    p = policy("pods")
    probe = {"livenessProbe": {"httpGet": {"port": 80, "host": "169.254.169.254"}}}
    slice_taint = {"key": f"{GROUP}/slice", "operator": "Exists"}
    control_plane = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
    tried: tuple[tuple[str, dict[str, Any], str], ...] = (
        (
            "an overhead of its own, smaller than its runtime class has",
            pod(overhead={"memory": "1Mi"}),
            "Overhead",
        ),
        ("a runtime class that is not there", pod(runtimeClassName="none"), "RuntimeClass"),
        ("a node of one's choice", pod(nodeName="simulated-1"), p),
        ("tolerate a slice", pod(tolerations=[slice_taint]), p),
        ("tolerate the control plane", pod(tolerations=[control_plane]), p),
        ("tolerate everything", pod(tolerations=[{"operator": "Exists"}]), p),
        ("a priority that is not offered", pod(priorityClassName="system-node-critical"), p),
        ("another scheduler", pod(schedulerName="mine"), p),
        ("the host's network", pod(hostNetwork=True), PSA),
        ("the host's processes", pod(hostPID=True), PSA),
        ("a path of the host", _volume(hostPath={"path": "/"}), PSA),
        ("a port of the host", pod({"ports": [{"containerPort": 80, "hostPort": 80}]}), PSA),
        ("a probe of another host", pod(probe), PSA),
        ("all privileges", pod({"securityContext": {"privileged": True}}), PSA),
        ("NFS", _volume(nfs={"server": "10.0.0.9", "path": "/"}), p),
        (
            "iSCSI",
            _volume(
                iscsi={"targetPortal": "10.0.0.9", "iqn": "iqn.2001-04.com.example:x", "lun": 0}
            ),
            p,
        ),
        ("CSI in the pod", _volume(csi={"driver": "any.example"}), p),
        ("another one's private image", pod({"imagePullPolicy": "IfNotPresent"}), p),
        (
            "look like a static pod",
            pod(meta={"annotations": {"kubernetes.io/config.source": "file"}}),
            p,
        ),
    )
    fine = post(PODS, pod(priorityClassName="offered"), COLLABORATOR)
    beside = f"{PODS}/resident/ephemeralcontainers"
    debugging: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("another one's private image", {"imagePullPolicy": "IfNotPresent"}, p),
        ("all privileges", {"securityContext": {"privileged": True}}, PSA),
    )
    chosen = {"apiVersion": "v1", "kind": "Node", "name": "simulated-1"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "resident"}}
    return [
        Attempt(
            name="place a pod without the scheduler",
            request=post(f"{PODS}/resident/binding", {**binding, "target": chosen}),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=fine,
        ),
        *(
            Attempt(
                name=f"an ephemeral container with {name}",
                request=patch(beside, _ephemeral(**fields)),
                who={**each_by(WORKERS, by), OUTSIDER: RBAC_SAYS},
                twin=patch(beside, _ephemeral(), COLLABORATOR),
            )
            for name, fields, by in debugging
        ),
        *(
            Attempt(
                name=f"a pod with {name}",
                request=post(PODS, body),
                who={**each_by(WORKERS, by), OUTSIDER: RBAC_SAYS},
                twin=fine,
            )
            for name, body, by in tried
        ),
    ]


def runtime_class_attempts() -> list[Attempt]:
    """The class is set by policy: what people try against the policy."""
    fine = post(PODS, pod(runtimeClassName="other"), COLLABORATOR)
    policies = f"/apis/admissionregistration.k8s.io/v1beta1/{MutatingAdmissionPolicy.KIND.plural}"
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    no_class = parameters.annotations_of({"runtimeClass": ""})
    own = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runc"}
    tried = (
        ("delete the policy that sets the runtime class", delete(f"{policies}/{SETS_CLASS}")),
        ("delete the policy that keeps pods in their slice", delete(f"{policies}/{PINS_PODS}")),
        (
            "say that there is no runtime class",
            patch(f"{roles}/{parameters.NAME}", {"metadata": {"annotations": no_class}}),
        ),
        (
            "make a runtime class of one's own",
            post("/apis/node.k8s.io/v1/runtimeclasses", {**own, "metadata": {"name": "mine"}}),
        ),
    )
    return [
        Attempt(name=name, request=request, who=each_by(EVERYBODY, RBAC_SAYS), twin=fine)
        for name, request in tried
    ] + [
        Attempt(
            name="take a running pod out of its runtime class",
            request=patch(f"{PODS}/resident", {"spec": {"runtimeClassName": "other"}}),
            who={**each_by(WORKERS, "pod updates may not change fields"), OUTSIDER: RBAC_SAYS},
            twin=fine,
        )
    ]


# Network ----------------------------------------------------------------------------------

POLICIES = "/apis/networking.k8s.io/v1/namespaces/acme/networkpolicies"
SERVICES = f"{NS}/acme/services"


def network_policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "tried"},
        "spec": {"podSelector": {}, **spec},
    }


def service(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "tried"},
        "spec": {"ports": [{"port": 80}], **spec},
    }


def network_attempts() -> list[Attempt]:
    n, s = policy("network"), policy("services")
    not_admins = each_by((COLLABORATOR, OUTSIDER), RBAC_SAYS)
    other = {"matchLabels": {TENANT_UID: "another"}}
    expression = {"key": TENANT_UID, "operator": "Exists"}
    private = ["10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"]
    outside = {"ipBlock": {"cidr": "0.0.0.0/0", "except": private}}
    fine = post(POLICIES, network_policy(egress=[{"to": [outside, {"podSelector": {}}]}]), OWNER)
    peers: tuple[tuple[str, Any], ...] = (
        ("an empty selector of namespaces", {"namespaceSelector": {}}),
        ("another tenant", {"namespaceSelector": other}),
        ("namespaces by expression", {"namespaceSelector": {"matchExpressions": [expression]}}),
        ("a pod's address", {"ipBlock": {"cidr": "10.1.2.3/32"}}),
        ("half of all addresses", {"ipBlock": {"cidr": "0.0.0.0/1"}}),
        ("the other half", {"ipBlock": {"cidr": "128.0.0.0/1"}}),
        ("all addresses", {"ipBlock": {"cidr": "0.0.0.0/0"}}),
        ("an exception too small", {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/9"]}}),
        ("all of IPv6", {"ipBlock": {"cidr": "::/0"}}),
        ("a private address of IPv6", {"ipBlock": {"cidr": "fd00::1/128"}}),
        ("the metadata service", {"ipBlock": {"cidr": "169.254.169.254/32"}}),
    )
    found = [
        Attempt(
            name=f"allow {name}",
            request=post(POLICIES, network_policy(ingress=[{"from": [peer]}])),
            who={**each_by(KEEPERS, n), **not_admins},
            twin=fine,
        )
        for name, peer in peers
    ]
    ways_out = ("another tenant", "a pod's address", "all addresses", "the metadata service")
    found += [
        Attempt(
            name=f"go to {name}",
            request=post(POLICIES, network_policy(egress=[{"to": [peer]}], policyTypes=["Egress"])),
            who={**each_by(KEEPERS, n), **not_admins},
            twin=fine,
        )
        for name, peer in peers
        if name in ways_out
    ]
    found += [
        Attempt(
            name="allow all who come",
            request=post(POLICIES, network_policy(ingress=[{}])),
            who={**each_by(KEEPERS, n), **not_admins},
            twin=fine,
        ),
        Attempt(
            name="go everywhere",
            request=post(POLICIES, network_policy(egress=[{}], policyTypes=["Egress"])),
            who=each_by(KEEPERS, n),
            twin=fine,
        ),
        Attempt(
            name="delete the baseline",
            request=delete(f"{POLICIES}/tenancy"),
            who={**each_by(KEEPERS, policy("managed")), **not_admins},
            twin=fine,
        ),
    ]
    services: tuple[tuple[str, dict[str, Any]], ...] = (
        ("addresses of others", service(externalIPs=["10.0.0.1"])),
        ("a load balancer's address", service(type="LoadBalancer", loadBalancerIP="10.0.0.1")),
        ("a port of all nodes", service(type="NodePort")),
        ("a name of elsewhere", service(type="ExternalName", externalName="kubernetes.default")),
    )
    found += [
        Attempt(
            name=f"a service with {name}",
            request=post(SERVICES, body),
            who={**each_by(WORKERS, s), OUTSIDER: RBAC_SAYS},
            twin=post(SERVICES, service(), COLLABORATOR),
        )
        for name, body in services
    ]
    slices = "/apis/discovery.k8s.io/v1/namespaces/acme/endpointslices"
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "tried"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [],
    }
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "tried"},
        "spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}},
    }
    found += [
        Attempt(
            name="send others' traffic elsewhere",
            request=post(slices, endpoints),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=post(SERVICES, service(), OWNER),
        ),
        Attempt(
            name="go through the API server to a service",
            request=get(f"{SERVICES}/any/proxy/", ""),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=get(SERVICES, OWNER),
        ),
        Attempt(
            name="take another one's host name",
            request=post("/apis/networking.k8s.io/v1/namespaces/acme/ingresses", ingress),
            who=each_by(EVERYBODY, RBAC_SAYS),
            twin=post(SERVICES, service(), OWNER),
        ),
    ]
    return found
