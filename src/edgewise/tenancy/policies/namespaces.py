"""Namespaces of tenants, what the operator keeps in them, and tenants that are disabled."""

from __future__ import annotations

from edgewise.api.tenancy import DISABLED, GROUP, MANAGED, TENANT_UID
from edgewise.kube.kinds.rbac import RBAC
from edgewise.tenancy.policies.writing import (
    CONNECT,
    CREATE,
    DELETE,
    OF_TENANTS,
    UPDATE,
    Check,
    On,
    policy,
)

_LABELS = "(has({0}.metadata.labels) ? {0}.metadata.labels : {{}})"
_NEW, _OLD = _LABELS.format("object"), _LABELS.format("oldObject")
_PROTECTED = (
    f"(k.startsWith('{GROUP}/') || k.startsWith('pod-security.kubernetes.io/') || "
    "k.contains('.tenant.edgewise.dev/'))"
)

NAMESPACES = policy(
    "namespaces",
    [
        On(
            ("namespaces", "namespaces/status", "namespaces/finalize"),
            (CREATE, UPDATE, DELETE),
        )
    ],
    [
        Check(
            "request.operation != 'CREATE' || variables.trusted",
            "namespaces of tenants are made by the operator: create a Tenant or a SubNamespace",
        ),
        Check(
            "request.operation != 'DELETE' || variables.trusted",
            "namespaces of tenants are deleted by the operator: delete its SubNamespace or Tenant",
        ),
        # For the operator too: a namespace that is there is never adopted.
        Check(
            f"request.operation != 'UPDATE' || ('{TENANT_UID}' in variables.after ? "
            f"variables.after['{TENANT_UID}'] : '') == ('{TENANT_UID}' in variables.before ? "
            f"variables.before['{TENANT_UID}'] : '')",
            "the tenant of a namespace is said when it is made, and stays",
        ),
        Check(
            "request.operation != 'UPDATE' || variables.trusted || ("
            f"variables.after.all(k, !{_PROTECTED} || (k in variables.before && "
            "variables.before[k] == variables.after[k])) && "
            f"variables.before.all(k, !{_PROTECTED} || k in variables.after))",
            "labels of tenancy and of Pod Security on a tenant's namespace are the operator's",
        ),
        Check(
            "!has(request.subResource) || request.subResource != 'finalize' || variables.ours",
            "a namespace is finalized by Kubernetes",
        ),
    ],
    objects=OF_TENANTS,
    variables={
        "after": f"object == null ? {{}} : {_NEW}",
        "before": f"oldObject == null ? {{}} : {_OLD}",
    },
)

MANAGED_OBJECTS = policy(
    "managed",
    [On(("*/*",), (CREATE, UPDATE, DELETE), group="*")],
    [
        Check(
            "variables.ours",
            f"what has the label {MANAGED} is kept by the operator alone",
        )
    ],
    namespaces=OF_TENANTS,
    # As it is, or as it was.
    objects={"matchExpressions": [{"key": MANAGED, "operator": "Exists"}]},
    # Kubernetes itself writes there for every pod that comes, and its own roles let nobody else.
    but=[On(("resourcequotas/status",), (UPDATE,))],
    at_a_glance={},
)

DISABLED_TENANTS = policy(
    "disabled",
    [On(("*/*",), (CREATE, UPDATE, DELETE, CONNECT), group="*")],
    [Check("variables.ours", "this tenant is disabled: its cluster's administrator enables it")],
    namespaces={"matchLabels": {DISABLED: "true"}},
)

# What the operator itself may not do, should anybody act in its name.
OPERATOR = policy(
    "operator",
    [On(("roles", "rolebindings"), (CREATE, UPDATE, DELETE), group=RBAC)],
    [
        Check(
            "!variables.operator || (has(namespaceObject.metadata.labels) && "
            f"'{TENANT_UID}' in namespaceObject.metadata.labels)",
            "the operator binds roles in the namespaces of tenants only",
        )
    ],
    without_parameters="Allow",
)
