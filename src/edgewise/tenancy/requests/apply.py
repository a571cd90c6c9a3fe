"""Carries out what a plan says. Every write may be repeated after a crash."""

from __future__ import annotations

from edgewise.api.tenancy import DISABLED, Tenant
from edgewise.api.tenancy_requests import Request, RoleRequest, TenantRequest
from edgewise.kube.errors import AlreadyExists, Forbidden, Invalid, NotFound
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.kinds.rbac import ClusterRoleBinding, RoleBinding
from edgewise.runtime.api import Api
from edgewise.runtime.retry import TryAgainNow
from edgewise.tenancy.requests.manifests import binding, tenant_objects
from edgewise.tenancy.requests.observe import came_from

DISABLED_TENANT = "this tenant is disabled: nobody gets a role in it until it is enabled"


async def give(api: Api, request: Request) -> str:
    """Why the API server does not let us, if so."""
    try:
        if isinstance(request, TenantRequest):
            await _give_tenant(api, request)
        elif await _is_disabled(api, request):
            return DISABLED_TENANT
        else:
            await api.create(binding(request))
            # Whoever disabled the tenant meanwhile may have emptied its bindings before this came.
            if await _is_disabled(api, request):
                await take_back(api, request)
                return DISABLED_TENANT
    except AlreadyExists as error:
        # The caches are read anew before the next look, which tells whose it is.
        raise TryAgainNow(str(error)) from error
    except (Forbidden, Invalid) as error:
        return str(error)
    return ""


async def _is_disabled(api: Api, request: Request) -> bool:
    """Whether it is for a namespace of a tenant that is disabled, where nobody gets a right."""
    if not isinstance(request, RoleRequest):
        return False
    found = await api.get(Namespace, request.metadata.namespace)
    return found.metadata.labels.get(DISABLED) == "true"


async def _give_tenant(api: Api, request: TenantRequest) -> None:
    """A name that another tenant has taken meanwhile costs that one nothing: we look first."""
    try:
        found = await api.get(Tenant, request.spec.tenant_name)
    except NotFound:
        found = None
    if found is not None and not came_from(found, request):
        raise AlreadyExists(409, "AlreadyExists", f"tenant {found.metadata.name} exists")
    for made in tenant_objects(request):
        if found is not None and isinstance(made, Tenant):
            continue
        try:
            await api.create(made)
        except AlreadyExists:
            there = await api.get(type(made), made.metadata.name)
            if not came_from(there, request):
                raise


async def take_back(api: Api, request: Request) -> None:
    """Of what a request for a role gave. A tenant stays."""
    if isinstance(request, TenantRequest):
        return
    made = binding(request)
    try:
        found: RoleBinding | ClusterRoleBinding = await api.get(
            type(made), made.metadata.name, made.metadata.namespace
        )
    except NotFound:
        return
    if any(each.uid == request.metadata.uid for each in found.metadata.owner_references):
        await api.delete(found, propagation="Background")
