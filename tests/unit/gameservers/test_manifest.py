"""The pod of a server: what its author wrote, and what Edgewise puts beside it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.gameservers import names
from edgewise.gameservers.server.manifest import pod_of, read_ports, written_ports
from edgewise.gameservers.server.settings import Settings
from edgewise.kube.kinds.core import Pod
from tests.unit.gameservers.making import server

SETTINGS = Settings(sidecar_image="sidecar:1", operator_url="http://operator:8081")
LABELS = {names.FLEET: "arena-v1", names.TYPE: "arena", names.VERSION: "v1"}


def made(
    spec: dict[str, Any] | None = None,
    *,
    ports: dict[str, int] | None = None,
    labels: dict[str, str] | None = None,
    settings: Settings = SETTINGS,
) -> Pod:
    found = server(spec)
    found.metadata.labels = LABELS if labels is None else labels
    return pod_of(found, settings, ports or {})


def game_of(pod: Pod) -> dict[str, Any]:
    container: dict[str, Any] = pod.spec["containers"][0]
    return container


def environment(container: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value") or each["valueFrom"] for each in container["env"]}


# What the game finds --------------------------------------------------------------------------


def test_a_game_finds_in_its_environment_who_and_where_it_is() -> None:
    found = environment(game_of(made({"sidecar": {"port": 9000}})))
    assert found == {
        "CONTAINER_IMAGE": "game:1",
        "SERVER_NAME": "arena-1",
        "FLEET_NAME": "arena-v1",
        "GAME_NAME": "arena",
        "EDGEWISE_SDK_URL": "http://127.0.0.1:9000",
        "POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}},
        "NODE_NAME": {"fieldRef": {"fieldPath": "spec.nodeName"}},
    }


def test_each_container_is_told_its_own_image_also_before_the_game() -> None:
    pod = made(
        {
            "pod": {
                "initContainers": [{"name": "maps", "image": "maps:1"}],
                "containers": [{"name": "game", "image": "game:1"}, {"name": "chat", "image": "c"}],
            }
        }
    )
    each = (*pod.spec["initContainers"][1:], *pod.spec["containers"])
    assert [environment(one)["CONTAINER_IMAGE"] for one in each] == ["maps:1", "game:1", "c"]


def test_what_an_author_writes_stays_and_may_refer_to_what_edgewise_writes() -> None:
    own = [{"name": "SERVER_NAME", "value": "mine"}, {"name": "URL", "value": "$(POD_IP):1"}]
    pod = made({"pod": {"containers": [{"name": "game", "image": "game:1", "env": own}]}})
    written = game_of(pod)["env"]
    assert written[-2:] == own
    assert [each["name"] for each in written].count("SERVER_NAME") == 1


def test_the_labels_are_those_that_people_select_by_and_the_policy_protects_by() -> None:
    pod = made(
        {"podMetadata": {"labels": {"team": "red", "server": "x"}, "annotations": {"a": "b"}}}
    )
    assert pod.metadata.labels == {
        "team": "red",
        "server": "arena-1",
        "fleet": "arena-v1",
        "type": "arena",
        names.VERSION: "v1",
        names.PROTECTED: "arena-1",
    }
    assert pod.metadata.annotations == {"a": "b"}
    alone = made(labels={}).metadata.labels
    assert alone == {"server": "arena-1", names.PROTECTED: "arena-1"}


# The sidecar ----------------------------------------------------------------------------------


def test_the_sidecar_is_there_before_everything_else_and_gone_after_it() -> None:
    before = [{"name": "maps", "image": "maps:1"}]
    pod = made({"pod": {"initContainers": before, "containers": [{"name": "game", "image": "g"}]}})
    sidecar, maps = pod.spec["initContainers"]
    assert (sidecar["name"], maps["name"]) == ("edgewise-sidecar", "maps")
    assert sidecar["restartPolicy"] == "Always", "this makes it a native sidecar"
    assert "startupProbe" not in sidecar
    assert sidecar["securityContext"]["runAsNonRoot"] is True
    assert "hostNetwork" not in pod.spec


@pytest.mark.parametrize(
    ("timeout", "lifetime"),
    [
        ("40m", 12_000),
        ("1s", 600),
        ("1500ms", 600),
        ("100000h", 1_800_000_000),
        ("300000h", 2**32 - 1),
    ],
)
def test_its_token_outlives_the_longest_drain_and_is_good_for_the_operator_only(
    timeout: str, lifetime: int
) -> None:
    volumes = made({"timeout": timeout}).spec["volumes"]
    (source,) = volumes[0]["projected"]["sources"]
    assert source["serviceAccountToken"] == {
        "path": "token",
        "audience": names.AUDIENCE,
        "expirationSeconds": lifetime,
    }


def test_the_token_is_that_of_the_account_that_the_author_names() -> None:
    for own in ({"serviceAccountName": "mine"}, {"serviceAccount": "mine"}):
        spec = made({"pod": {"containers": [{"name": "game", "image": "g"}], **own}}).spec
        assert {name: spec[name] for name in own} == own
        assert len([name for name in spec if name.startswith("serviceAccount")]) == 1
    assert made().spec["serviceAccountName"] == "default"


def test_without_an_image_for_it_there_is_none() -> None:
    spec = made(settings=Settings()).spec
    assert "initContainers" not in spec
    assert "volumes" not in spec


# Where it runs --------------------------------------------------------------------------------


def test_a_pod_is_not_restarted_in_place_nor_preempted_by_ordinary_ones() -> None:
    spec = made().spec
    assert spec["restartPolicy"] == "Never"
    assert spec["priorityClassName"] == names.PRIORITY_CLASS


@pytest.mark.parametrize("own", [{"priorityClassName": "high"}, {"priority": 7}])
def test_unless_its_author_says_otherwise(own: dict[str, Any]) -> None:
    pod = {"containers": [{"name": "game", "image": "g"}], "restartPolicy": "Always", **own}
    spec = made({"pod": pod}).spec
    assert spec["restartPolicy"] == "Always"
    assert {name: spec.get(name) for name in own} == own
    assert spec.get("priorityClassName") != names.PRIORITY_CLASS


def test_a_silent_node_is_judged_by_the_operator_and_not_by_kubernetes() -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 5}
    pod = {"containers": [{"name": "game", "image": "g"}], "tolerations": [own]}
    unreachable = {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
    }
    assert made({"pod": pod}).spec["tolerations"] == [own, unreachable]
    assert [each["key"] for each in made().spec["tolerations"]] == [own["key"], unreachable["key"]]


@pytest.mark.parametrize(
    ("scheduling", "kind"), [("Packed", "podAffinity"), ("Distributed", "podAntiAffinity")]
)
def test_servers_of_all_fleets_like_or_shun_each_other_but_need_neither(
    scheduling: str, kind: str
) -> None:
    affinity = made(labels={names.SCHEDULING: scheduling}).spec["affinity"]
    (term,) = affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert list(affinity) == [kind]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    (expression,) = term["podAffinityTerm"]["labelSelector"]["matchExpressions"]
    assert expression == {"key": names.PROTECTED, "operator": "Exists"}


def test_the_author_of_an_affinity_knows_better_and_a_server_alone_has_none() -> None:
    own = {"nodeAffinity": {}}
    pod = {"containers": [{"name": "game", "image": "g"}], "affinity": own}
    assert made({"pod": pod}, labels={names.SCHEDULING: "Packed"}).spec["affinity"] == own
    assert "affinity" not in made(labels={}).spec


# Ports ----------------------------------------------------------------------------------------

PORTS: dict[str, tuple[dict[str, Any], dict[str, int], list[dict[str, Any]], str]] = {
    "Dynamic: a port of the node leads to the container's": (
        {"containerPort": 7777},
        {"play": 7001},
        [{"containerPort": 7777, "protocol": "UDP", "hostPort": 7001}],
        "7777",
    ),
    "Static: the port that its author chose": (
        {"containerPort": 7777, "policy": "Static", "hostPort": 9},
        {"play": 9},
        [{"containerPort": 7777, "protocol": "UDP", "hostPort": 9}],
        "7777",
    ),
    "Passthrough: the container listens at the port of the node": (
        {"policy": "Passthrough", "protocol": "TCP"},
        {"play": 7001},
        [{"containerPort": 7001, "protocol": "TCP", "hostPort": 7001}],
        "7001",
    ),
    "None: only the pod has it": (
        {"containerPort": 7777, "policy": "None"},
        {},
        [{"containerPort": 7777, "protocol": "UDP"}],
        "7777",
    ),
    "TCPUDP: both at the same number": (
        {"containerPort": 7777, "protocol": "TCPUDP"},
        {"play": 7001},
        [
            {"containerPort": 7777, "protocol": "TCP", "hostPort": 7001},
            {"containerPort": 7777, "protocol": "UDP", "hostPort": 7001},
        ],
        "7777",
    ),
}


@pytest.mark.parametrize("sentence", PORTS)
def test_ports(sentence: str) -> None:
    port, chosen, opened, told = PORTS[sentence]
    pod = made({"ports": [{"name": "play", **port}]}, ports=chosen)
    assert game_of(pod)["ports"] == opened
    assert environment(game_of(pod))["PORT_PLAY"] == told
    assert read_ports(pod.metadata.annotations.get(names.PORTS, "")) == chosen


def test_a_port_is_opened_in_the_container_that_names_it_and_only_once() -> None:
    pod = {
        "containers": [
            {"name": "game", "image": "g"},
            {"name": "voice", "image": "v", "ports": [{"containerPort": 9}, {"containerPort": 7}]},
        ]
    }
    spec = {"pod": pod, "ports": [{"name": "voice-chat", "containerPort": 7, "protocol": "TCP"}]}
    game, voice = made(spec, ports={"voice-chat": 7001}).spec["containers"]
    assert "ports" not in game
    assert voice["ports"] == [{"containerPort": 9}, {"containerPort": 7, "hostPort": 7001}]
    assert environment(game)["PORT_VOICE_CHAT"] == "7"


def test_the_spec_of_the_server_is_left_as_it_was() -> None:
    found = server({"ports": [{"name": "play", "containerPort": 7777}]})
    before = msgspec.json.encode(found)
    pod_of(found, SETTINGS, {"play": 7001})
    assert msgspec.json.encode(found) == before


def test_the_ports_of_a_pod_are_read_as_they_were_written() -> None:
    ports = {"play": 7001, "admin": 7002}
    assert read_ports(written_ports(ports)) == ports
