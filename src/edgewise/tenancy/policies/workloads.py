"""What pods and Services of tenants may ask for. Host namespaces, host paths, privileges and the
like are refused by Pod Security, whose level is a label of every namespace of a tenant."""

from __future__ import annotations

from edgewise.api.tenancy import SLICE
from edgewise.tenancy.policies.writing import CREATE, OF_TENANTS, UPDATE, Check, On, policy

_ALL = (
    "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
)
# The node mounts the others itself, past the NetworkPolicies of the pod.
_VOLUMES = (
    "configMap",
    "secret",
    "emptyDir",
    "projected",
    "downwardAPI",
    "persistentVolumeClaim",
    "ephemeral",
    "image",
)
_OFFERED = " || ".join(f"has(v.{each})" for each in _VOLUMES)

# A pod in a slice has its nodes for itself, so it runs in what it likes; others tolerate no slice.
_OWN_SLICE = (
    f"variables.slice != '' && t.key == '{SLICE}' && has(t.value) && t.value == variables.slice && "
    "(!has(t.operator) || t.operator == 'Equal')"
)
IN_SLICE = {
    "slice": (
        f"has(namespaceObject.metadata.labels) && '{SLICE}' in namespaceObject.metadata.labels ? "
        f"namespaceObject.metadata.labels['{SLICE}'] : ''"
    )
}

PODS = policy(
    "pods",
    [On(("pods", "pods/ephemeralcontainers"), (CREATE, UPDATE))],
    [
        Check(
            "request.operation != 'CREATE' || variables.runtimeClass == '' || "
            "variables.slice != '' || "
            "(has(object.spec.runtimeClassName) && "
            "object.spec.runtimeClassName == variables.runtimeClass)",
            "spec.runtimeClassName: pods of tenants run in the class of this cluster",
            says="'spec.runtimeClassName: pods of tenants run in ' + variables.runtimeClass",
        ),
        Check(
            "request.operation != 'CREATE' || !has(object.spec.nodeName) || "
            "object.spec.nodeName == ''",
            "spec.nodeName: pods of tenants are placed by the scheduler",
        ),
        Check(
            "!has(object.spec.tolerations) || (request.operation == 'UPDATE' && "
            "has(oldObject.spec.tolerations) && object.spec.tolerations == "
            "oldObject.spec.tolerations) || object.spec.tolerations.all(t, has(t.key) && "
            f"(t.key in variables.tolerations.split(',') || ({_OWN_SLICE})))",
            "spec.tolerations: pods of tenants tolerate only what this cluster offers",
            says="'spec.tolerations: pods of tenants tolerate only ' + variables.tolerations",
        ),
        Check(
            "request.operation != 'CREATE' || !has(object.spec.priorityClassName) || "
            "object.spec.priorityClassName == '' || "
            "object.spec.priorityClassName in variables.priorityClasses.split(',')",
            "spec.priorityClassName: this priority is not offered to tenants",
        ),
        Check(
            "request.operation != 'CREATE' || !has(object.spec.schedulerName) || "
            "object.spec.schedulerName in variables.schedulers.split(',')",
            "spec.schedulerName: this scheduler is not offered to tenants",
        ),
        Check(
            "request.operation != 'CREATE' || !has(object.spec.volumes) || "
            f"object.spec.volumes.all(v, {_OFFERED})",
            "spec.volumes: the node mounts this kind of volume itself, so tenants use a "
            "PersistentVolumeClaim",
        ),
        Check(
            "request.operation != 'CREATE' || variables.pullAlways != 'true' || "
            f"{_ALL}.all(c, has(c.imagePullPolicy) && c.imagePullPolicy == 'Always')",
            "imagePullPolicy: Always, so that no tenant runs another one's private image",
        ),
        Check(
            "!has(request.subResource) || request.subResource != 'ephemeralcontainers' || "
            "variables.pullAlways != 'true' || !has(object.spec.ephemeralContainers) || "
            "object.spec.ephemeralContainers.all(c, has(c.imagePullPolicy) && "
            "c.imagePullPolicy == 'Always')",
            "spec.ephemeralContainers.imagePullPolicy: Always, so that no tenant runs another "
            "one's private image",
        ),
        Check(
            "request.operation != 'CREATE' || variables.pullAlways != 'true' || "
            "!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.image) || "
            "(has(v.image.pullPolicy) && v.image.pullPolicy == 'Always'))",
            "spec.volumes.image.pullPolicy: Always, so that no tenant reads another one's private "
            "image",
        ),
        Check(
            "!has(object.metadata.annotations) || object.metadata.annotations.all(k, "
            "!k.startsWith('kubernetes.io/config.'))",
            "metadata.annotations: those of static pods are the kubelet's",
        ),
    ],
    namespaces=OF_TENANTS,
    variables=IN_SLICE,
    at_a_glance={"slice": "''"},
)

SERVICES = policy(
    "services",
    [On(("services",), (CREATE, UPDATE))],
    [
        Check(
            "!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0",
            "spec.externalIPs: a tenant cannot take addresses of others",
        ),
        Check(
            "!has(object.spec.loadBalancerIP) || object.spec.loadBalancerIP == ''",
            "spec.loadBalancerIP: addresses are given by the cluster",
        ),
        Check(
            "object.spec.type != 'NodePort' && (object.spec.type != 'LoadBalancer' || "
            "(has(object.spec.allocateLoadBalancerNodePorts) && "
            "object.spec.allocateLoadBalancerNodePorts == false))",
            "spec.type: ports of nodes are not for tenants; clients come by the gateway",
        ),
        Check(
            "object.spec.type != 'ExternalName'",
            "spec.type: an ExternalName could name anything, also what others take for theirs",
        ),
    ],
    namespaces=OF_TENANTS,
)
