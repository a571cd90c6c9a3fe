"""Tenancy as a domain: what it adds to Kubernetes, and what it needs to run."""

from __future__ import annotations

from edgewise.api.tenancy import SubNamespace, Tenant, TenantResourceQuota
from edgewise.api.tenancy_requests import REQUESTS
from edgewise.api.tenancy_slices import Slice, SliceClaim
from edgewise.domain import Built, Context, Domain
from edgewise.tenancy.controller import TenantController
from edgewise.tenancy.metrics import TenancyMetrics
from edgewise.tenancy.parameters import PARAMETERS
from edgewise.tenancy.policies.all_policies import POLICIES
from edgewise.tenancy.policies.runtime_class import SET_RUNTIME_CLASS
from edgewise.tenancy.requests import roles as request_roles
from edgewise.tenancy.requests.controller import (
    ClusterRoleRequestController,
    RoleRequestController,
    TenantRequestController,
)
from edgewise.tenancy.requests.webhooks import webhooks
from edgewise.tenancy.rights import RIGHTS
from edgewise.tenancy.roles import ROLES
from edgewise.tenancy.runtime_class import BY_WEBHOOK, webhook
from edgewise.tenancy.slices import rights as slice_rights
from edgewise.tenancy.slices.claim_controller import SliceClaimController
from edgewise.tenancy.slices.controller import SliceController
from edgewise.tenancy.slices.pinning import PIN_PODS
from edgewise.tenancy.slices.webhooks import webhooks as slice_webhooks


def build(context: Context) -> Built:
    metrics = TenancyMetrics(context.metrics.registry)
    return Built(
        controllers=(
            TenantController(context.client, context.caches, metrics=metrics),
            TenantRequestController(),
            RoleRequestController(),
            ClusterRoleRequestController(),
            SliceClaimController(),
            SliceController(context.caches, metrics=metrics),
        ),
        webhooks=(
            *webhooks(context.client, context.caches),
            *slice_webhooks(context.caches),
            *((webhook(context.caches),) if context.options[BY_WEBHOOK.name] else ()),
        ),
    )


TENANCY = Domain(
    name="tenancy",
    kinds=(Tenant, SubNamespace, TenantResourceQuota, *REQUESTS, Slice, SliceClaim),
    build=build,
    options=(BY_WEBHOOK,),
    cluster_objects=(*ROLES, *request_roles.ROLES, *POLICIES),
    mutating_policies=(*SET_RUNTIME_CLASS, *PIN_PODS),
    settings=(PARAMETERS,),
    rights=(*RIGHTS, *request_roles.RIGHTS, *slice_rights.RIGHTS),
)
