"""Pods of tenants run in the runtime class of the cluster: the API server sets it.

A class that the author chose is replaced, and with it the overhead that Kubernetes has already
added for it; it adds that of the new class afterwards. In a slice, a tenant is alone on its nodes
and chooses for itself. The policy `pods` looks at the result.

The operator says by a label which namespaces that concerns. Without a class it is none, and the API
server need not prepare each pod to find that out, which costs it as much as all other rules. While
a label is missing that should be there, the policy `pods` lets no pod in.
"""

from __future__ import annotations

from typing import Any

from edgewise.api.tenancy import GROUP, RUNTIME_CLASS, SLICE, TENANT_UID
from edgewise.kube.kinds.admission import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
from edgewise.kube.kinds.rbac import ClusterRole
from edgewise.kube.objects import Object
from edgewise.tenancy import parameters

NAME = f"runtime-class.{GROUP}"
OUTSIDE_OF_SLICES: dict[str, Any] = {
    "matchExpressions": [
        {"key": TENANT_UID, "operator": "Exists"},
        {"key": SLICE, "operator": "DoesNotExist"},
    ]
}
_WITH_CLASS: dict[str, Any] = {
    "matchExpressions": [
        *OUTSIDE_OF_SLICES["matchExpressions"],
        {"key": RUNTIME_CLASS, "operator": "Exists"},
    ]
}
_CLASS = f"params.metadata.annotations['{parameters.annotation('runtimeClass')}']"

SET_RUNTIME_CLASS: tuple[Object, ...] = (
    MutatingAdmissionPolicy.named(
        NAME,
        spec={
            "failurePolicy": "Fail",
            # Should another one change the class after us.
            "reinvocationPolicy": "IfNeeded",
            "paramKind": {
                "apiVersion": ClusterRole.KIND.api_version,
                "kind": ClusterRole.KIND.kind,
            },
            "matchConstraints": {
                "namespaceSelector": _WITH_CLASS,
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["*"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                        "scope": "Namespaced",
                    }
                ],
            },
            "matchConditions": [
                {
                    "name": "has-another-class",
                    "expression": f"{_CLASS} != '' && (!has(object.spec.runtimeClassName) || "
                    f"object.spec.runtimeClassName != {_CLASS})",
                }
            ],
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {
                        "expression": "[JSONPatch{op: 'add', path: '/spec/runtimeClassName', "
                        f"value: {_CLASS}}}] + (has(object.spec.overhead) ? "
                        "[JSONPatch{op: 'remove', path: '/spec/overhead'}] : [])"
                    },
                }
            ],
        },
    ),
    MutatingAdmissionPolicyBinding.named(
        NAME,
        spec={
            "policyName": NAME,
            "paramRef": {"name": parameters.NAME, "parameterNotFoundAction": "Deny"},
        },
    ),
)
