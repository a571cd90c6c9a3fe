"""What tenancy needs to be allowed. The chart grants exactly this.

Roles and Secrets are not among it: the operator is a subject of the owners' binding in every
namespace of a tenant, and copies there what owners may make, and nowhere else.
"""

from __future__ import annotations

from edgewise.api.tenancy import (
    ADMIN_ROLE,
    COLLABORATOR_ROLE,
    GROUP,
    OWNER_ROLE,
    VIEWER_ROLE,
)
from edgewise.domain import Rights
from edgewise.kube.kinds.rbac import RBAC, PolicyRule
from edgewise.tenancy import parameters

LOOK = ("get", "list", "watch")
KEEP = (*LOOK, "create", "patch", "delete")


def rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> PolicyRule:
    return PolicyRule(api_groups=[group], resources=[*resources], verbs=[*verbs])


OPERATOR = Rights(
    program="operator",
    cluster=(
        # Subtenants are Tenants that the operator makes, and ends with their SubNamespace.
        rule(GROUP, ("tenants",), (*LOOK, "create", "delete")),
        rule(GROUP, ("subnamespaces",), (*LOOK, "delete")),
        rule(GROUP, ("tenantresourcequotas",), LOOK),
        rule(
            GROUP,
            ("tenants/status", "subnamespaces/status", "tenantresourcequotas/status"),
            ("patch",),
        ),
        rule("", ("namespaces", "resourcequotas", "limitranges"), KEEP),
        rule("", ("resourcequotas/status",), ("patch",)),
        rule("networking.k8s.io", ("networkpolicies",), KEEP),
        rule(RBAC, ("rolebindings",), KEEP),
        PolicyRule(
            api_groups=[RBAC],
            resources=["clusterroles"],
            resource_names=[OWNER_ROLE, ADMIN_ROLE, COLLABORATOR_ROLE, VIEWER_ROLE],
            verbs=["bind"],
        ),
        # Whether something is left in a namespace that ends.
        rule("", ("pods", "persistentvolumeclaims"), ("list",)),
        # Where the API server and the cluster's DNS are.
        rule("", ("services",), ("get",)),
        rule("discovery.k8s.io", ("endpointslices",), ("list", "watch")),
        PolicyRule(
            api_groups=[RBAC],
            resources=["clusterroles"],
            resource_names=[parameters.NAME],
            verbs=["list", "watch"],
        ),
    ),
)

# Namespaces of tenants stay: who wants them gone deletes the tenants while an operator runs.
UNINSTALL_EVERYTHING = Rights(
    program="uninstall",
    when=("uninstall.hook", "!crds.keep"),
    cluster=(
        rule(GROUP, ("tenants", "subnamespaces", "tenantresourcequotas"), ("list", "delete")),
    ),
)

RIGHTS = (OPERATOR, UNINSTALL_EVERYTHING)
