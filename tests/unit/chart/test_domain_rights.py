"""The chart has of each domain what its record says: rights, cluster objects, programs."""

import shutil

import msgspec
import pytest
import yaml

from edgewise.api.manifests import render_objects
from edgewise.domain import all_kinds
from edgewise.operator import DOMAINS
from tests.integration.domain.toy import BINDING, POLICY
from tests.unit.chart import test_chart
from tests.unit.chart.test_chart import (
    CHART,
    VARIANTS,
    helm,
    merged,
    objects,
    of_kind,
    render,
    rendered,
    variant,
)

__all__ = ["helm", "rendered", "variant"]


def holds(condition, values):
    found = values
    for part in condition.lstrip("!").split("."):
        found = found[part]
    return bool(found) is not condition.startswith("!")


def expanded(rules):
    """One line for each thing that is allowed, however they are grouped."""
    return {
        (group, resource, name, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or [""]
        for verb in rule["verbs"]
    }


def recorded(domain, values):
    found = {}
    for rights in domain.rights:
        if all(holds(condition, values) for condition in rights.when):
            for scope, rules in (("ClusterRole", rights.cluster), ("Role", rights.namespace)):
                lines = [
                    {
                        "apiGroups": rule.api_groups,
                        "resources": rule.resources,
                        "resourceNames": rule.resource_names,
                        "verbs": rule.verbs,
                    }
                    for rule in rules
                ]
                name = f"edgewise-{rights.program}-{domain.name}"
                if lines:
                    found.setdefault((scope, name), set()).update(expanded(lines))
    return found


def test_it_grants_what_the_record_says_and_to_that_program_alone(variant, rendered):
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    values = merged(defaults, VARIANTS[variant[0]])
    roles = of_kind(rendered, "ClusterRole") + of_kind(rendered, "Role")
    granted = {(one["kind"], one["metadata"]["name"]): one for one in roles}
    bindings = {
        (one["roleRef"]["kind"], one["roleRef"]["name"]): one["subjects"]
        for one in of_kind(rendered, "ClusterRoleBinding") + of_kind(rendered, "RoleBinding")
    }
    for domain in DOMAINS:
        wanted = recorded(domain, values)
        mine = {key: one for key, one in granted.items() if key[1].endswith(f"-{domain.name}")}
        assert {key: expanded(one["rules"]) for key, one in mine.items()} == wanted
        for kind, name in wanted:
            account = name.removesuffix(f"-{domain.name}")
            assert [each["name"] for each in bindings[kind, name]] == [account]


def test_what_all_domains_share_names_none_of_their_kinds(rendered):
    groups = {kind.KIND.group for kind in all_kinds(DOMAINS)}
    ends = tuple(f"-{domain.name}" for domain in DOMAINS)
    own = {each.metadata.name for domain in DOMAINS for each in domain.cluster_objects}
    for role in of_kind(rendered, "ClusterRole"):
        # Cluster objects of a domain are its own.
        if not role["metadata"]["name"].endswith(ends) and role["metadata"]["name"] not in own:
            asked = {group for rule in role["rules"] for group in rule["apiGroups"]}
            assert not asked & groups, role["metadata"]["name"]


def test_cluster_objects_of_a_domain_are_part_of_the_chart(helm, monkeypatch, tmp_path):
    shutil.copytree(CHART, tmp_path / "chart", symlinks=False)
    monkeypatch.setattr(test_chart, "CHART", tmp_path / "chart")
    for name, text in render_objects({"toys": (POLICY, BINDING)}).items():
        (tmp_path / "chart" / "files" / "cluster-objects" / name).write_text(text)
    found = objects(render(helm, VARIANTS["default"]))
    for wanted in (POLICY, BINDING):
        assert msgspec.to_builtins(wanted) in of_kind(found, wanted.KIND.kind)


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_the_chart_has_a_folder_for_each_domain_and_a_file_for_each_of_its_programs(domain):
    folder = CHART / "templates" / domain.name
    assert folder.is_dir()
    assert all((folder / program.chart).is_file() for program in domain.programs)
