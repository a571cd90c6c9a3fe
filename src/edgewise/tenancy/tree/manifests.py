"""What is made for a branch: a subtenant's Tenant, and what every namespace of a tenant gets:
labels, its way in, and its walls."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

from edgewise.api.tenancy import (
    CLUSTER_UID,
    CORE,
    DISABLED,
    KIND_LABEL,
    MANAGED,
    NETWORK,
    OF_CLUSTER,
    OPEN,
    OWNER_ROLE,
    OWNER_UID,
    PARENT,
    RUNTIME_CLASS,
    SLICE,
    STATE,
    SUB,
    TENANT,
    TENANT_UID,
    ParentRef,
    State,
    Subject,
    SubNamespace,
    Tenant,
    TenantSpec,
)
from edgewise.kube.kinds.admission import LabelSelector
from edgewise.kube.kinds.core import (
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    Namespace,
)
from edgewise.kube.kinds.networking import (
    EGRESS,
    INGRESS,
    IPBlock,
    NetworkPolicy,
    NetworkPolicyEgressRule,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)
from edgewise.kube.kinds.rbac import RBAC, RbacSubject, RoleBinding, RoleRef
from edgewise.kube.objects import ObjectMeta
from edgewise.tenancy.names import KEPT, prefixed_labels
from edgewise.tenancy.parameters import Parameters
from edgewise.tenancy.surroundings import Door, Surroundings
from edgewise.tenancy.tree.seen import Branch

POD_SECURITY = "pod-security.kubernetes.io/enforce"
_BY_NAME = "kubernetes.io/metadata.name"
# What a container gets that asks for nothing, so that it can be counted.
DEFAULT_REQUESTS = {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "256Mi"}
DEFAULT_LIMITS = {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "1Gi"}


def subtenant_of(name: str, source: SubNamespace, owner: Subject) -> Tenant:
    meta = source.metadata
    parent = ParentRef(namespace=meta.namespace, name=meta.name, uid=meta.uid)
    return Tenant.named(name, spec=TenantSpec(owners=[owner], parent=parent))


def labels_of(branch: Branch, tenant: Tenant, around: Surroundings) -> dict[str, str]:
    labels = {
        KIND_LABEL: CORE if branch.is_core else SUB,
        TENANT: tenant.metadata.name,
        TENANT_UID: tenant.metadata.uid,
        CLUSTER_UID: around.cluster_uid,
        POD_SECURITY: around.parameters.pod_security,
    }
    if branch.source is not None:
        labels |= {PARENT: branch.parent, OWNER_UID: branch.source.metadata.uid}
        labels |= prefixed_labels(branch.source)
    if not tenant.spec.cluster_network_policy:
        labels[NETWORK] = OPEN
    if branch.slice:
        labels[SLICE] = branch.slice
    elif around.parameters.runtime_class:
        labels[RUNTIME_CLASS] = OF_CLUSTER
    if not branch.enabled:
        labels[DISABLED] = "true"
    return labels


def namespace_of(branch: Branch, tenant: Tenant, around: Surroundings) -> Namespace:
    made = Namespace.named(branch.name)
    made.metadata.labels = labels_of(branch, tenant, around)
    # Its owners come in after all else is there: when they can read this, it is true.
    made.metadata.annotations = {STATE: State.ESTABLISHED.value}
    return made


def binding_of(branch: Branch, around: Surroundings) -> RoleBinding:
    return RoleBinding(
        api_version=RoleBinding.KIND.api_version,
        kind=RoleBinding.KIND.kind,
        metadata=_kept(branch),
        role_ref=RoleRef(kind="ClusterRole", name=OWNER_ROLE),
        subjects=subjects_of(branch, around),
    )


def subjects_of(branch: Branch, around: Surroundings) -> list[RbacSubject]:
    """The operator is among them: so it may copy there what owners may make, and nowhere else."""
    people = branch.people if branch.enabled else ()
    return [around.operator, *(rbac_subject(each) for each in people)]


def rbac_subject(subject: Subject) -> RbacSubject:
    if subject.kind == "ServiceAccount":
        return RbacSubject(
            kind=subject.kind, name=subject.name, namespace=subject.namespace or "default"
        )
    return RbacSubject(kind=subject.kind, name=subject.name, api_group=RBAC)


def limits_of(branch: Branch, counted: Iterable[str]) -> LimitRange:
    """Where cpu is counted, a pod that asks for none would be refused. A limit is set only where
    limits are counted: it would refuse pods that ask for more."""
    names = set(counted)
    limited = {name.removeprefix("limits.") for name in names if name.startswith("limits.")}
    requested = {name.removeprefix("requests.") for name in names} | limited
    item = LimitRangeItem(
        type="Container",
        default={name: DEFAULT_LIMITS[name] for name in DEFAULT_LIMITS if name in limited},
        default_request={
            name: DEFAULT_REQUESTS[name] for name in DEFAULT_REQUESTS if name in requested
        },
    )
    made = LimitRange.named(KEPT, branch.name, spec=LimitRangeSpec(limits=[item]))
    made.metadata = _kept(branch)
    return made


def policy_of(branch: Branch, tenant: Tenant, around: Surroundings) -> NetworkPolicy:
    made = NetworkPolicy.named(
        KEPT, branch.name, spec=walls(tenant.metadata.uid, around.parameters, around.doors)
    )
    made.metadata = _kept(branch)
    return made


@lru_cache(maxsize=256)
def walls(tenant_uid: str, parameters: Parameters, doors: tuple[Door, ...]) -> NetworkPolicySpec:
    """Inside the tenant everything, outside the cluster everything, between tenants nothing.

    One for all namespaces of a tenant: it is looked at for each of them, again and again.
    """
    inside = NetworkPolicyPeer(
        namespace_selector=LabelSelector(match_labels={TENANT_UID: tenant_uid})
    )
    outside = [NetworkPolicyPeer(ip_block=block) for block in _outside(parameters.ranges)]
    gateway = NetworkPolicyPeer(
        namespace_selector=LabelSelector(match_labels={_BY_NAME: parameters.gateway_namespace}),
        pod_selector=LabelSelector(match_labels={"app.kubernetes.io/component": "gateway"}),
    )
    dns = NetworkPolicyPeer(
        namespace_selector=LabelSelector(match_labels={_BY_NAME: "kube-system"}),
        pod_selector=LabelSelector(match_labels={"k8s-app": "kube-dns"}),
    )
    return NetworkPolicySpec(
        policy_types=[INGRESS, EGRESS],
        ingress=[
            NetworkPolicyIngressRule(peers=[inside]),
            NetworkPolicyIngressRule(peers=[*outside]),
            NetworkPolicyIngressRule(peers=[gateway]),
        ],
        egress=[
            NetworkPolicyEgressRule(peers=[inside]),
            NetworkPolicyEgressRule(peers=[*outside]),
            NetworkPolicyEgressRule(
                peers=[dns],
                ports=[
                    NetworkPolicyPort(protocol="UDP", port=53),
                    NetworkPolicyPort(protocol="TCP", port=53),
                ],
            ),
            *(_through(door) for door in doors),
        ],
    )


def _outside(ranges: Iterable[str]) -> list[IPBlock]:
    networks = [ipaddress.ip_network(each) for each in ranges]
    return [
        IPBlock(
            cidr=everything,
            besides=sorted(str(each) for each in networks if each.version == version),
        )
        for version, everything in ((4, "0.0.0.0/0"), (6, "::/0"))
    ]


def _through(door: Door) -> NetworkPolicyEgressRule:
    address = ipaddress.ip_address(door.address)
    block = IPBlock(cidr=f"{address}/{address.max_prefixlen}")
    return NetworkPolicyEgressRule(
        peers=[NetworkPolicyPeer(ip_block=block)],
        ports=[NetworkPolicyPort(protocol=door.protocol, port=door.port)],
    )


def _kept(branch: Branch) -> ObjectMeta:
    return ObjectMeta(name=KEPT, namespace=branch.name, labels={MANAGED: "true"})
