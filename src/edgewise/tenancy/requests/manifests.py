"""What a request gives, as objects. Only fields of its spec reach them."""

from __future__ import annotations

import msgspec

from edgewise.api.tenancy import (
    Share,
    Subject,
    Tenant,
    TenantProfile,
    TenantResourceQuota,
    TenantResourceQuotaSpec,
    TenantSpec,
)
from edgewise.api.tenancy_requests import REQUEST, RoleAsked, RoleRequest, TenantRequest
from edgewise.kube.kinds.rbac import RBAC, ClusterRoleBinding, RbacSubject, RoleBinding, RoleRef
from edgewise.kube.objects import Object, ObjectMeta, OwnerReference

# The name of the claim in a tenant's quota.
CLAIM = "request"


def binding_name(request: RoleAsked) -> str:
    return f"request-{request.metadata.name}"


def binding(request: RoleAsked) -> RoleBinding | ClusterRoleBinding:
    """It goes with its request, also while no operator runs: Kubernetes sees to that."""
    kind = request.KIND
    meta = ObjectMeta(
        name=binding_name(request),
        namespace=request.metadata.namespace,
        labels={REQUEST: request.metadata.name},
        owner_references=[
            OwnerReference(
                api_version=f"{kind.group}/{kind.version}",
                kind=kind.kind,
                name=request.metadata.name,
                uid=request.metadata.uid,
                controller=True,
            )
        ],
    )
    subjects = [RbacSubject(kind="User", name=request.spec.requester, api_group=RBAC)]
    asked = RoleRef(kind=request.spec.role_ref.kind, name=request.spec.role_ref.name)
    if isinstance(request, RoleRequest):
        return RoleBinding(metadata=meta, role_ref=asked, subjects=subjects)
    return ClusterRoleBinding(metadata=meta, role_ref=asked, subjects=subjects)


def tenant_objects(request: TenantRequest) -> list[Object]:
    """The quota first: nothing of the tenant is ever without it."""
    said = {field: getattr(request.spec, field) for field in TenantProfile.__struct_fields__}
    owner = Subject(kind="User", name=request.spec.requester)
    meta = ObjectMeta(name=request.spec.tenant_name, annotations={REQUEST: request.metadata.uid})
    made: list[Object] = []
    if request.spec.resources:
        claims = {CLAIM: Share(resources=request.spec.resources)}
        made.append(
            TenantResourceQuota(
                metadata=msgspec.structs.replace(meta), spec=TenantResourceQuotaSpec(claims=claims)
            )
        )
    made.append(Tenant(metadata=meta, spec=TenantSpec(**said, owners=[owner])))
    return made
