"""What a plan sees of a request, from the caches."""

from __future__ import annotations

from datetime import UTC, datetime

from edgewise.api.tenancy import Tenant, TenantResourceQuota
from edgewise.api.tenancy_requests import (
    REQUEST,
    ClusterRoleRequest,
    Request,
    RoleAsked,
    RoleRequest,
    TenantRequest,
)
from edgewise.kube.kinds.rbac import ClusterRoleBinding, RoleBinding
from edgewise.kube.objects import Object
from edgewise.runtime.watches import CacheView
from edgewise.tenancy.requests.manifests import binding_name
from edgewise.tenancy.requests.plan import Seen


def observe(request: Request, cache: CacheView, refused: str = "") -> Seen:
    given, taken, unfinished = False, "", False
    if isinstance(request, TenantRequest):
        given, taken, unfinished = _tenant(request, cache)
    else:
        binding = _binding(request, cache)
        given = binding is not None and _owned(binding, request)
        if binding is not None and not given:
            taken = f"there is a binding {binding.metadata.name} that is not of this request"
    return Seen(
        created=_moment(request.metadata.creation_timestamp),
        generation=request.metadata.generation,
        decision=request.spec.decision,
        status=request.status,
        grant_expires_at=getattr(request.spec, "grant_expires_at", None),
        given=given,
        taken=taken,
        unfinished=unfinished,
        refused=refused,
    )


def _moment(text: str | None) -> datetime:
    return datetime.fromisoformat(text) if text else datetime.now(UTC)


def _binding(request: RoleAsked, cache: CacheView) -> Object | None:
    name = binding_name(request)
    if isinstance(request, ClusterRoleRequest):
        return cache[ClusterRoleBinding].find(name)
    assert isinstance(request, RoleRequest)  # noqa: S101 - for the type checker
    return cache[RoleBinding].find(name, request.metadata.namespace)


def _owned(binding: Object, request: Request) -> bool:
    return any(each.uid == request.metadata.uid for each in binding.metadata.owner_references)


def _tenant(request: TenantRequest, cache: CacheView) -> tuple[bool, str, bool]:
    name = request.spec.tenant_name
    tenant = cache[Tenant].find(name)
    if tenant is None:
        return False, "", False
    if not came_from(tenant, request):
        return False, f"there is a tenant {name} already: ask for another name", False
    quota = cache[TenantResourceQuota].find(name)
    return True, "", bool(request.spec.resources) and quota is None


def came_from(obj: Object, request: Request) -> bool:
    return obj.metadata.annotations.get(REQUEST) == request.metadata.uid
