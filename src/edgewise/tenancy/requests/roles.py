"""Who may ask, who may decide, and what the operator needs for it."""

from __future__ import annotations

from edgewise.api.tenancy import GROUP
from edgewise.api.tenancy_requests import APPROVER_ROLE, OFFERED, OFFERED_EVERYWHERE
from edgewise.domain import Rights
from edgewise.kube.kinds.rbac import (
    RBAC,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    RbacSubject,
    RoleRef,
)
from edgewise.kube.objects import Object

REQUESTER_ROLE = "edgewise:requester"
_EVERY = ["tenantrequests", "rolerequests", "clusterrolerequests"]
_DECIDE = ["get", "list", "watch", "update", "patch", "delete", "approve"]
_LOOK = ["get", "list", "watch"]

# For who administers a namespace of a tenant: among the rules of `edgewise:tenant-admin`.
DECIDE_HERE = PolicyRule(api_groups=[GROUP], resources=["rolerequests"], verbs=[*_DECIDE])

ROLES: tuple[Object, ...] = (
    # Without `list`, a request is seen by who knows its name: its maker.
    ClusterRole.named(
        REQUESTER_ROLE,
        rules=[PolicyRule(api_groups=[GROUP], resources=_EVERY, verbs=["create", "get", "delete"])],
    ),
    ClusterRoleBinding.named(
        REQUESTER_ROLE,
        role_ref=RoleRef(kind="ClusterRole", name=REQUESTER_ROLE),
        subjects=[RbacSubject(kind="Group", name="system:authenticated", api_group=RBAC)],
    ),
    ClusterRole.named(
        APPROVER_ROLE,
        rules=[
            PolicyRule(api_groups=[GROUP], resources=["tenantrequests"], verbs=[*_DECIDE]),
            PolicyRule(
                api_groups=[GROUP],
                resources=["tenants", "tenantresourcequotas"],
                verbs=[*_LOOK, "create"],
            ),
        ],
    ),
)

OPERATOR = Rights(
    program="operator",
    cluster=(
        PolicyRule(api_groups=[GROUP], resources=_EVERY, verbs=[*_LOOK, "delete"]),
        PolicyRule(
            api_groups=[GROUP], resources=[f"{each}/status" for each in _EVERY], verbs=["patch"]
        ),
        PolicyRule(api_groups=[GROUP], resources=["tenantresourcequotas"], verbs=["create"]),
        PolicyRule(
            api_groups=[RBAC],
            resources=["clusterrolebindings"],
            verbs=[*_LOOK, "create", "delete"],
        ),
        PolicyRule(
            api_groups=[RBAC],
            resources=["clusterroles"],
            resource_names=sorted({*OFFERED, *OFFERED_EVERYWHERE}),
            verbs=["get", "bind"],
        ),
        PolicyRule(
            api_groups=["authorization.k8s.io"],
            resources=["subjectaccessreviews"],
            verbs=["create"],
        ),
    ),
)
UNINSTALL_EVERYTHING = Rights(
    program="uninstall",
    when=("uninstall.hook", "!crds.keep"),
    cluster=(PolicyRule(api_groups=[GROUP], resources=_EVERY, verbs=["list", "delete"]),),
)
RIGHTS = (OPERATOR, UNINSTALL_EVERYTHING)
