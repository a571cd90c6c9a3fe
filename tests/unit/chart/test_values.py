"""The values of the chart: all of them are described, and a wrong one is refused by name."""

import json
import re

import pytest
import yaml

from tests.unit.chart.test_chart import CHART, ROOT, helm, run

__all__ = ["helm"]  # a fixture

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def followed(schema):
    """A schema, with what it refers to."""
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    return schema


def described(schema, at=()):
    schema = followed(schema)
    parts = schema.get("properties")
    if parts is None:
        return {at}
    assert schema["additionalProperties"] is False, f"{'.'.join(at)} takes any key"
    return {path for name, part in parts.items() for path in described(part, (*at, name))}


def given(values, at=()):
    if not isinstance(values, dict) or not values or "limits" in values:
        return {at}
    return {path for name, part in values.items() for path in given(part, (*at, name))}


def test_the_schema_describes_every_value_and_no_other():
    # Helm hands it to every chart that another one contains.
    assert described(SCHEMA) - {("global",)} == given(VALUES)


WRONG = {
    "a name in another case": ({"gateway": {"publicURL": "http://a.example"}}, "publicURL"),
    "a name that does not exist": ({"operatr": {}}, "operatr"),
    "a word for a number": ({"operator": {"replicas": "abc"}}, "/operator/replicas"),
    "less than none": ({"gateway": {"replicas": -1}}, "/gateway/replicas"),
    "a number for a switch": ({"gateway": {"hostPort": "yes"}}, "/gateway/hostPort"),
    "a type that Services do not have": (
        {"gateway": {"service": {"type": "Loadbalancer"}}},
        "/gateway/service/type",
    ),
    "a URL without a scheme": ({"gateway": {"publicUrl": "edge.example.org"}}, "publicUrl"),
    "a host that is a URL": ({"gateway": {"publicHost": "http://a.example"}}, "publicHost"),
    "a port that does not exist": ({"gateway": {"ports": {"last": 70000}}}, "/gateway/ports/last"),
    "a Gateway without a namespace": ({"operator": {"gatewayApi": "edge"}}, "gatewayApi"),
    "a token that gateways refuse": ({"secrets": {"controlToken": "short"}}, "controlToken"),
    "nodePorts where none is": ({"gateway": {"service": {"httpNodePort": -1}}}, "httpNodePort"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_by_name(helm, case):
    values, name = WRONG[case]
    done = run(helm, "template", "edge", CHART, values=values)
    assert done.returncode != 0
    assert name.replace("/", ".").strip(".") in done.stderr.replace("/", "."), done.stderr


def test_what_the_command_line_makes_of_a_number_is_taken(helm):
    values = {"image": {"tag": 1}, "gateway": {"replicas": 3, "publicUrl": "http://[::1]:80/x"}}
    done = run(helm, "template", "edge", CHART, values=values)
    assert done.returncode == 0, done.stderr
    assert "image: edgewise:1\n" in done.stdout


def test_the_oldest_kubernetes_is_the_same_everywhere(helm):
    oldest = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    version = re.fullmatch(r">=(\d+\.\d+)\.0-0", oldest)[1]
    for page in ("docs/how-to/install.md", "deploy/chart/README.md"):
        said = re.findall(r"Kubernetes (?:from )?(\d\.\d+)", (ROOT / page).read_text())
        assert said, page
        assert set(said) == {version}, page
    older = f"{version.split('.')[0]}.{int(version.split('.')[1]) - 1}.9"
    done = run(helm, "template", "edge", CHART, "--kube-version", older, values={})
    assert "incompatible with Kubernetes" in done.stderr
