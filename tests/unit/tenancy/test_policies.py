"""What the policies of tenancy ask the API server to do for requests that are good."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.api.tenancy import MANAGED
from edgewise.kube.kinds.admission import ValidatingAdmissionPolicy
from edgewise.tenancy.policies.all_policies import POLICIES
from edgewise.tenancy.policies.writing import CREATE, Check, On, policy, spelled_out
from edgewise.tenancy.roles import ROLES

SPECS: dict[str, dict[str, Any]] = {
    each.metadata.name.partition(".")[0]: each.spec
    for each in POLICIES
    if isinstance(each, ValidatingAdmissionPolicy)
}


def test_variables_are_spelled_out_however_deep_they_lie() -> None:
    variables = {"a": "variables.b + 1", "b": "2", "ab": "3"}
    assert spelled_out("variables.a == variables.ab", variables) == "((2) + 1) == (3)"


@pytest.mark.parametrize("name", ["pods", "managed"])
def test_what_every_pod_passes_is_decided_at_a_glance(name: str) -> None:
    """Kubernetes prepares the objects once for that, and three times for checks."""
    spec = SPECS[name]
    [condition] = spec["matchConditions"]
    variables = {each["name"]: each["expression"] for each in spec["variables"]}
    if name == "pods":
        variables["slice"] = "''"
    checks = [each["expression"] for each in spec["validations"]]
    broken = " || ".join(f"!({spelled_out(each, variables)})" for each in checks)
    assert condition["expression"] == broken
    assert "variables." not in broken
    assert "namespaceObject" not in broken


def test_what_is_not_managed_is_left_out_by_its_labels() -> None:
    found = SPECS["managed"]["matchConstraints"]["objectSelector"]
    assert found == {"matchExpressions": [{"key": MANAGED, "operator": "Exists"}]}


def test_the_count_of_a_quota_is_left_to_the_rights_of_kubernetes() -> None:
    """It is written for every pod; no role of tenants has it."""
    [left] = SPECS["managed"]["matchConstraints"]["excludeResourceRules"]
    assert (left["resources"], left["operations"]) == (["resourcequotas/status"], ["UPDATE"])
    granted = {
        resource
        for role in ROLES
        for rule in role.rules
        for resource in rule.resources
        if {"update", "patch", "*"} & set(rule.verbs)
    }
    assert not {"resourcequotas/status", "*/status", "*", "*/*"} & granted


def test_what_needs_the_namespace_cannot_be_decided_at_a_glance() -> None:
    checks = [Check("namespaceObject.metadata.name == 'a'", "no")]
    with pytest.raises(ValueError, match="a namespace is not known at a glance"):
        policy("x", [On(("pods",), (CREATE,))], checks, at_a_glance={})
