"""The Helm chart: what it renders, and that its parts fit together.

The golden files show every change of the chart as a difference to read. After a change that
is meant, rewrite them: EDGEWISE_REWRITE_GOLDEN=1 pytest tests/unit/chart
"""

import base64
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from edgewise.cli.main import COMMANDS
from edgewise.tenancy.requests.roles import REQUESTER_ROLE

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "chart"
GOLDEN = Path(__file__).parent / "golden"
CLUSTER_OBJECTS = CHART / "files" / "cluster-objects"
SECRETS = {"secrets": {"controlToken": "a-token-that-is-only-for-tests"}}
VARIANTS = {
    "default": {},
    "behind-a-gateway": {
        "gateway": {
            "publicUrl": "https://edge.example.org",
            "publicHost": "edge.example.org",
            "domain": "play.example.org",
            "ports": {"first": 20000, "last": 20001},
            "trustedHops": 1,
            "service": {"type": "ClusterIP"},
            "httpRoute": {
                "enabled": True,
                "parentRefs": [{"name": "edge", "namespace": "gateways"}],
                "hostnames": ["edge.example.org"],
            },
        }
    },
    "host-ports": {
        "gateway": {"hostPort": True, "ports": {"first": 20000, "last": 20001}},
        "operator": {
            "domains": ["sessions"],
            "gatewayApi": "gateways/edge",
            "nodeHost": "nodes.example.org",
            "tolerations": [{"operator": "Exists"}],
            "extraArgs": ["--more"],
        },
        "networkPolicies": {
            "webhookFrom": [{"ipBlock": {"cidr": "10.0.0.0/28"}}],
            "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
        },
    },
    "host-network": {
        "gateway": {
            "hostNetwork": True,
            "ports": {"first": 20000, "last": 32767},
            "service": {"type": "NodePort"},
        }
    },
    "node-ports": {
        "gateway": {
            "publicUrl": "http://node.example.org:30080",
            "domain": "play.example.org",
            "ports": {"first": 30000, "last": 30001},
            "service": {"type": "NodePort", "httpNodePort": 30080, "hostNodePort": 30081},
        }
    },
    "two-load-balancers": {
        "gateway": {
            "ports": {"first": 20000, "last": 20001},
            "service": {
                "separateUdp": True,
                "loadBalancerClass": "example.org/lb",
                "loadBalancerSourceRanges": ["203.0.113.0/24"],
                "annotations": {"example.org/pool": "public"},
            },
        }
    },
    "all-goes-with-it": {"crds": {"keep": False}, "gateway": {"ports": {"last": 20000}}},
    "with-reports": {
        "reports": {"enabled": True, "service": {"type": "NodePort", "nodePort": 31883}},
        "ping": {"enabled": True},
        "gateway": {"ports": {"last": 20000}},
    },
    "another-broker": {
        "reports": {
            "enabled": True,
            "brokerSecret": "broker",
            "publicBroker": "mqtts://broker.example.org",
        },
        "gateway": {"ports": {"last": 20000}},
    },
    "operator-only": {
        "gateway": {"enabled": False},
        "operator": {"checkAuthors": False},
        "crds": {"install": False},
        "uninstall": {"hook": False},
        "secrets": {"createControlToken": False},
    },
}


@pytest.fixture(scope="module")
def helm():
    beside = Path(sys.executable).parent / "helm"
    found = beside if beside.exists() else shutil.which("helm")
    if not found:
        pytest.skip("helm is not installed")
    return found


def run(helm, *arguments, values):
    return subprocess.run(
        [helm, *arguments, "--values", "-"],
        input=yaml.safe_dump(merged(SECRETS, values)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def merged(one, other):
    result = dict(one)
    for key, value in other.items():
        mine = result.get(key)
        both = isinstance(mine, dict) and isinstance(value, dict)
        result[key] = merged(mine, value) if both else value
    return result


def render(helm, values):
    done = run(helm, "template", "edge", CHART, "--namespace", "edgewise-system", values=values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text):
    return [document for document in yaml.safe_load_all(text) if document]


@pytest.fixture(params=VARIANTS, scope="module")
def variant(request, helm):
    return request.param, render(helm, VARIANTS[request.param])


@pytest.fixture(scope="module")
def rendered(variant):
    return objects(variant[1])


def of_kind(rendered, kind):
    return [one for one in rendered if one["kind"] == kind]


def pods(rendered):
    return {
        one["metadata"]["name"]: one["spec"]["template"]
        for kind in ("Deployment", "DaemonSet", "Job")
        for one in of_kind(rendered, kind)
    }


def containers(rendered):
    return [
        (pod["spec"], container)
        for pod in pods(rendered).values()
        for container in pod["spec"]["containers"]
    ]


def test_it_renders_what_it_rendered(variant):
    name, text = variant
    # CRDs and cluster objects have a check of their own, and would bury everything else.
    files = [yaml.safe_load_all(file.read_text()) for file in CLUSTER_OBJECTS.glob("*.yaml")]
    theirs = {(one["kind"], one["metadata"]["name"]) for file in files for one in file}
    shown = [
        one
        for one in objects(text)
        if one["kind"] != "CustomResourceDefinition"
        and (one["kind"], one["metadata"]["name"]) not in theirs
    ]
    now = yaml.safe_dump_all(shown, sort_keys=True, width=100)
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("EDGEWISE_REWRITE_GOLDEN"):
        file.write_text(now)
    assert file.read_text() == now


def test_helm_finds_nothing_to_complain_about(helm):
    for values in VARIANTS.values():
        done = run(helm, "lint", "--strict", CHART, values=values)
        assert done.returncode == 0, done.stdout


def test_every_selector_selects_pods_of_the_chart(rendered):
    labels = [pod["metadata"]["labels"] for pod in pods(rendered).values()]
    selectors = [one["spec"]["selector"] for one in of_kind(rendered, "Service")]
    for kind in ("Deployment", "PodDisruptionBudget"):
        selectors += [one["spec"]["selector"]["matchLabels"] for one in of_kind(rendered, kind)]
    for selector in selectors:
        matching = [each for each in labels if selector.items() <= each.items()]
        assert len(matching) == 1, selector


def test_every_port_that_is_named_exists(rendered):
    templates = list(pods(rendered).values())
    for service in of_kind(rendered, "Service"):
        selector = service["spec"]["selector"]
        [pod] = [one for one in templates if selector.items() <= one["metadata"]["labels"].items()]
        names = {
            port["name"]
            for container in pod["spec"]["containers"]
            for port in container.get("ports", [])
        }
        for port in service["spec"]["ports"]:
            target = port["targetPort"]
            assert isinstance(target, int) or target in names, (service["metadata"]["name"], port)
        ports = [(port["port"], port.get("protocol", "TCP")) for port in service["spec"]["ports"]]
        assert len(ports) == len(set(ports))
    for _, container in containers(rendered):
        mine = {port["name"] for port in container.get("ports", [])}
        for probe in ("livenessProbe", "readinessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["port"] in mine


def test_whoever_runs_has_an_account_and_may_do_only_what_is_listed(rendered):
    accounts = {one["metadata"]["name"] for one in of_kind(rendered, "ServiceAccount")}
    for pod in pods(rendered).values():
        assert pod["spec"]["serviceAccountName"] in accounts
    roles = of_kind(rendered, "ClusterRole") + of_kind(rendered, "Role")
    assert roles
    for role in roles:
        for rule in role["rules"]:
            for field in ("apiGroups", "resources", "verbs"):
                assert "*" not in rule[field], role["metadata"]["name"]
    for binding in of_kind(rendered, "ClusterRoleBinding") + of_kind(rendered, "RoleBinding"):
        assert binding["roleRef"]["name"] in {role["metadata"]["name"] for role in roles}
        if binding["metadata"]["name"] == REQUESTER_ROLE:
            # Whoever logs in may ask; what they ask for is decided by others.
            assert {subject["name"] for subject in binding["subjects"]} == {"system:authenticated"}
            continue
        assert {subject["name"] for subject in binding["subjects"]} <= accounts


def test_no_container_can_do_more_than_it_needs(rendered):
    for pod, container in containers(rendered):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"]
        assert "memory" in container["resources"]["limits"]
        mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
        assert mounts <= {volume["name"] for volume in pod.get("volumes", [])}


def test_two_of_each_and_never_all_of_them_away(rendered):
    budgets = {
        one["metadata"]["name"]: one["spec"] for one in of_kind(rendered, "PodDisruptionBudget")
    }
    for deployment in of_kind(rendered, "Deployment"):
        if deployment["metadata"]["name"] == "edgewise-reports":
            # Reports are counted in the memory of one, and come again within seconds.
            assert deployment["spec"]["replicas"] == 1
            continue
        assert deployment["spec"]["replicas"] == 2
        assert budgets[deployment["metadata"]["name"]]["maxUnavailable"] == 1


def test_the_operator_is_reached_at_two_ports_only(rendered):
    (policy,) = of_kind(rendered, "NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    (operator,) = (
        container for _, container in containers(rendered) if container["name"] == "operator"
    )
    named = [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
    assert sorted(named) == sorted(port["name"] for port in operator["ports"])
    assert policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "operator"


def test_who_may_reach_the_operator_can_be_said(helm):
    values = {"webhookFrom": [{"ipBlock": {"cidr": "10.0.0.0/28"}}], "metricsFrom": []}
    (policy,) = of_kind(
        objects(render(helm, merged(SECRETS, {"networkPolicies": values}))), "NetworkPolicy"
    )
    webhook, metrics = policy["spec"]["ingress"]
    assert webhook["from"] == values["webhookFrom"]
    assert "from" not in metrics
    off = objects(render(helm, merged(SECRETS, {"networkPolicies": {"enabled": False}})))
    assert of_kind(off, "NetworkPolicy") == []


def test_no_secret_is_in_the_arguments_of_a_program(rendered):
    for _, container in containers(rendered):
        text = yaml.safe_dump(container)
        assert SECRETS["secrets"]["controlToken"] not in text


def test_the_crds_are_those_of_the_repository_and_stay_when_the_chart_goes(helm):
    rendered = of_kind(objects(render(helm, {})), "CustomResourceDefinition")
    files = {
        (crd := yaml.safe_load(path.read_text()))["metadata"]["name"]: crd
        for path in (ROOT / "deploy" / "crds").glob("*.yaml")
    }
    assert {one["metadata"]["name"] for one in rendered} == files.keys()
    for one in rendered:
        assert one["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
        theirs = files[one["metadata"]["name"]]
        theirs["metadata"].setdefault("annotations", {})
        assert one == theirs


def test_the_control_token_is_kept_when_the_chart_goes(helm):
    [secret] = of_kind(objects(render(helm, {})), "Secret")
    assert secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_what_is_not_to_be_kept_goes_with_the_chart(helm):
    rendered = objects(render(helm, VARIANTS["all-goes-with-it"]))
    for one in rendered:
        assert "helm.sh/resource-policy" not in (one["metadata"].get("annotations") or {})
    [job] = of_kind(rendered, "Job")
    assert "--delete-sessions" in job["spec"]["template"]["spec"]["containers"][0]["args"]
    [job] = of_kind(objects(render(helm, {})), "Job")
    assert "--delete-sessions" not in job["spec"]["template"]["spec"]["containers"][0]["args"]


def test_the_rights_to_uninstall_exist_only_while_it_happens(rendered):
    for one in rendered:
        hook = (one["metadata"].get("annotations") or {}).get("helm.sh/hook")
        part = one["metadata"].get("labels", {}).get("app.kubernetes.io/component")
        assert (hook == "pre-delete") == (part == "uninstall"), one["metadata"]["name"]


def test_a_control_token_that_nobody_gives_is_random_and_long_enough(helm):
    nothing = {"secrets": {"controlToken": ""}}
    tokens = [
        base64.b64decode(of_kind(objects(render(helm, nothing)), "Secret")[0]["data"]["token"])
        for _ in range(2)
    ]
    assert [len(token) for token in tokens] == [48, 48]
    assert tokens[0] != tokens[1]


def test_the_seat_key_is_no_part_of_the_chart(rendered):
    """Whatever renders the chart anew must not change the address of every seat."""
    names = {one["metadata"]["name"] for one in of_kind(rendered, "Secret")}
    assert names <= {"edgewise-control-token"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"gateway": {"ports": {"first": 20010, "last": 20000}}}, "must not be greater"),
        ({"gateway": {"ports": {"first": 20000, "last": 40000}}}, "below 32768"),
        ({"gateway": {"ports": {"first": 20000, "last": 20500}}}, "more than 100 ports"),
        ({"gateway": {"hostPort": True, "hostNetwork": True}}, "choose one"),
        ({"gateway": {"service": {"type": "NodePort"}}}, "gateway.ports.first=30000"),
        (
            {
                "gateway": {
                    "service": {"type": "NodePort", "separateUdp": True},
                    "ports": {"first": 30000, "last": 30001},
                }
            },
            "belongs to one Service",
        ),
        ({"gateway": {"httpRoute": {"enabled": True}}}, "parentRefs must name"),
    ],
)
def test_values_that_cannot_work_are_refused_with_a_sentence(helm, values, says):
    done = run(helm, "template", "edge", CHART, values=values)
    assert done.returncode != 0
    assert says in done.stderr


def test_on_nodes_every_port_is_open_under_the_number_that_is_published(helm):
    rendered = objects(render(helm, VARIANTS["node-ports"]))
    operator = pods(rendered)["edgewise-operator"]
    assert "--ports=30000-30001" in operator["spec"]["containers"][0]["args"]
    services = [one["spec"] for one in of_kind(rendered, "Service")]
    [entry] = [spec for spec in services if spec.get("type") == "NodePort"]
    # A node without a gateway leads to one that has it.
    assert entry["externalTrafficPolicy"] == "Cluster"
    assert {(port.get("protocol", "TCP"), port["nodePort"]) for port in entry["ports"]} == {
        *((protocol, port) for protocol in ("TCP", "UDP") for port in (30000, 30001)),
        *(("TCP", port) for port in (30080, 30081)),
    }


def test_every_argument_is_one_that_the_program_knows(rendered):
    for _, container in containers(rendered):
        name, *arguments = container["args"]
        entry = COMMANDS[name]
        if not entry.exists():
            continue  # it is checked from the day on which it is there
        known = {
            option
            for parameter in get_command(importlib.import_module(entry.module).app).params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        given = {argument.partition("=")[0] for argument in arguments} - {"--more"}
        assert given <= known, f"edgewise {name} does not know {sorted(given - known)}"
