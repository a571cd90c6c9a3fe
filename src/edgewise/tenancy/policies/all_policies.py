"""All of them, with the roles and the parameters that they go with."""

from __future__ import annotations

from edgewise.kube.objects import Object
from edgewise.tenancy.policies.namespaces import (
    DISABLED_TENANTS,
    MANAGED_OBJECTS,
    NAMESPACES,
    OPERATOR,
)
from edgewise.tenancy.policies.network import NETWORK_POLICIES
from edgewise.tenancy.policies.own_kinds import QUOTAS, SUBNAMESPACES, TENANTS
from edgewise.tenancy.policies.workloads import PODS, SERVICES
from edgewise.tenancy.requests.policies import REQUESTS
from edgewise.tenancy.slices.policies import NODES, SLICED_PODS, SLICES

POLICIES: tuple[Object, ...] = (
    *NAMESPACES,
    *MANAGED_OBJECTS,
    *DISABLED_TENANTS,
    *OPERATOR,
    *TENANTS,
    *SUBNAMESPACES,
    *QUOTAS,
    *PODS,
    *SERVICES,
    *NETWORK_POLICIES,
    *REQUESTS,
    *SLICES,
    *NODES,
    *SLICED_PODS,
)
