"""How a ValidatingAdmissionPolicy of tenancy is written: its rules, and who it is not for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from edgewise.api.tenancy import GROUP, TENANT_UID
from edgewise.kube.kinds.admission import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from edgewise.kube.kinds.rbac import ClusterRole
from edgewise.kube.objects import Object
from edgewise.tenancy import parameters

_VARIABLE = re.compile(r"\bvariables\.(\w+)")
CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"
OF_TENANTS: dict[str, Any] = {"matchExpressions": [{"key": TENANT_UID, "operator": "Exists"}]}

# Variables that every policy has: what the parameters say, each under its name, and who asks.
_VARIABLES = {
    **{
        name: f"params.metadata.annotations['{parameters.annotation(name)}']"
        for name in parameters.DEFAULTS
    },
    "operator": "request.userInfo.username in variables.operators.split(',')",
    "trusted": (
        "variables.operator || "
        "(has(request.userInfo.groups) && 'system:masters' in request.userInfo.groups)"
    ),
    "kubernetes": (
        "request.userInfo.username.startsWith('system:serviceaccount:kube-system:') || "
        "request.userInfo.username.startsWith('system:kube-') || "
        "request.userInfo.username.startsWith('system:node:') || "
        "request.userInfo.username == 'system:apiserver'"
    ),
    "ours": "variables.trusted || variables.kubernetes",
}


class Check(msgspec.Struct, frozen=True):
    """What must be true, and the sentence if it is not."""

    expression: str
    message: str = ""
    says: str = ""  # a CEL expression for the sentence, where it depends on the object


class On(msgspec.Struct, frozen=True):
    """Requests that a policy looks at."""

    resources: tuple[str, ...]
    operations: tuple[str, ...]
    group: str = ""
    versions: tuple[str, ...] = ("*",)


def policy(
    name: str,
    on: Sequence[On],
    checks: Iterable[Check],
    *,
    namespaces: dict[str, Any] | None = None,
    objects: dict[str, Any] | None = None,
    but: Sequence[On] = (),
    without_parameters: str = "Deny",
    variables: dict[str, str] | None = None,
    at_a_glance: Mapping[str, str] | None = None,
) -> tuple[Object, ...]:
    """A policy and its binding. Without the parameters, what the selectors select is refused: a
    policy that looks at more than tenants has to let it pass.

    `at_a_glance`: the API server asks first whether any check is broken, and for the sentences
    only then. For what is good, which is nearly everything, it prepares the objects once instead
    of three times: that is most of what a policy costs. It sees no namespace at that point:
    variables that need one are named, each with the value that breaks a check rather than not.
    """
    full = f"{name}.{GROUP}"
    # A selector of namespaces lets all that is in none through: it would be for everybody's
    # cluster-wide objects.
    scope = {"scope": "Namespaced"} if namespaces is not None else {}
    match: dict[str, Any] = {"resourceRules": [{**_rule(each), **scope} for each in on]}
    if but:
        match["excludeResourceRules"] = [{**_rule(each), **scope} for each in but]
    if namespaces is not None:
        match["namespaceSelector"] = namespaces
    if objects is not None:
        match["objectSelector"] = objects
    checks, known = tuple(checks), {**_VARIABLES, **(variables or {})}
    conditions = []
    if at_a_glance is not None:
        broken = " || ".join(f"!({each.expression})" for each in checks)
        expression = spelled_out(broken, {**known, **at_a_glance})
        if "namespaceObject" in expression:
            raise ValueError(f"{full}: a namespace is not known at a glance")
        conditions.append({"name": "a-check-is-broken", "expression": expression})
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "paramKind": {
            "apiVersion": ClusterRole.KIND.api_version,
            "kind": ClusterRole.KIND.kind,
        },
        "matchConstraints": match,
        **({"matchConditions": conditions} if conditions else {}),
        "variables": [
            {"name": each, "expression": expression} for each, expression in known.items()
        ],
        "validations": [_validation(each) for each in checks],
    }
    if "params.data" in str(spec):
        raise ValueError(f"{full}: write variables.NAME for a parameter, not params.data.NAME")
    binding = {
        "policyName": full,
        "validationActions": ["Deny"],
        "paramRef": {
            "name": parameters.NAME,
            "parameterNotFoundAction": without_parameters,
        },
    }
    return (
        ValidatingAdmissionPolicy.named(full, spec=spec),
        ValidatingAdmissionPolicyBinding.named(full, spec=binding),
    )


def _rule(on: On) -> dict[str, Any]:
    return {
        "apiGroups": [on.group],
        "apiVersions": [*on.versions],
        "operations": [*on.operations],
        "resources": [*on.resources],
    }


def _validation(check: Check) -> dict[str, Any]:
    # Without a reason the answer would be 422, as if the object had a mistake in it.
    written: dict[str, Any] = {"expression": check.expression, "reason": "Forbidden"}
    if check.message:
        written["message"] = check.message
    if check.says:
        written["messageExpression"] = check.says
    return written


def spelled_out(expression: str, variables: Mapping[str, str]) -> str:
    """Without variables, which only checks may use."""
    while found := _VARIABLE.search(expression):
        written = f"({variables[found[1]]})"
        expression = expression[: found.start()] + written + expression[found.end() :]
    return expression
