"""What the roles of tenants never hold, and what is never copied to a child."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.api.tenancy import INHERIT, MANAGED
from edgewise.kube.kinds.rbac import PolicyRule
from edgewise.kube.objects import Object
from edgewise.tenancy.inheriting import inheritable, types_of
from edgewise.tenancy.names import KEPT
from edgewise.tenancy.roles import ROLES


def rules() -> list[PolicyRule]:
    return [rule for role in ROLES for rule in role.rules]


def test_no_role_of_tenants_has_every_verb_which_on_roles_contains_escalate() -> None:
    verbs = {verb for rule in rules() for verb in rule.verbs}
    assert not verbs & {"*", "escalate", "bind", "impersonate"}


def test_no_role_of_tenants_reaches_past_its_pods() -> None:
    resources = {resource for rule in rules() for resource in rule.resources}
    assert not resources & {"*", "endpointslices", "endpoints", "ingresses", "nodes"}
    assert not [each for each in resources if each.endswith("/proxy")]


def test_no_role_of_tenants_writes_quotas_or_namespaces() -> None:
    written = {
        resource
        for rule in rules()
        if {*rule.verbs} - {"get", "list", "watch"}
        for resource in rule.resources
    }
    assert not written & {"namespaces", "resourcequotas", "resourcequotas/status", "tenants"}


def made(kind: str, name: str = "x", **fields: Any) -> Object:
    meta = {key: fields.pop(key) for key in ("labels", "annotations") if key in fields}
    (found,) = [each for each in types_of([kind]) if each.KIND.kind == kind]
    one = found.named(name, "acme", **fields)
    for key, value in meta.items():
        setattr(one.metadata, key, value)
    return one


NEVER = {
    "a token": made("Secret", type="kubernetes.io/service-account-token"),
    "Helm's memory": made("Secret", type="helm.sh/release.v1"),
    "the default account": made("ServiceAccount", "default"),
    "the cluster's certificates": made("ConfigMap", "kube-root-ca.crt"),
    "what says so": made("ConfigMap", annotations={INHERIT: "false"}),
    "what the operator keeps": made("LimitRange", KEPT, labels={MANAGED: "true"}),
}


@pytest.mark.parametrize("what", NEVER)
def test_never_copied(what: str) -> None:
    assert not inheritable(NEVER[what])


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap", "ServiceAccount", "LimitRange"])
def test_all_else_is_copied(kind: str) -> None:
    assert inheritable(made(kind))


def test_a_quota_is_not_inherited() -> None:
    assert not types_of(["ResourceQuota"])
