"""Places, before anything is made: what may be asked for, and what follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from edgewise.local.component import CONTROL_PLANE
from edgewise.local.errors import BadSpec, LocalError
from edgewise.local.layout import ClusterRecord, Home
from edgewise.local.machines.machines import group_of, top_group_of
from edgewise.local.machines.node_components import holders, place_components
from edgewise.local.machines.node_files import place_files
from edgewise.local.network import commands as network
from edgewise.local.network import distances
from edgewise.local.network.delay import Delay, parse_delay
from edgewise.local.network.latency import parse_distance, relays, sorted_latencies
from edgewise.local.spec import LocalClusterSpec, differences

ROME = {"rome": {"edge-2": Delay(12.5, 2.0)}}


def record(**options: Any) -> ClusterRecord:
    spec = LocalClusterSpec(**{"name": "edge", "nodes": 2, "places": ROME} | options)
    return ClusterRecord(spec=spec, index=1, programs={"init": "/init", "kube-proxy": "/kp"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12.5ms", Delay(12.5)),
        ("12.5ms±2ms", Delay(12.5, 2.0)),
        ("12.5ms+-2ms", Delay(12.5, 2.0)),
        ("0ms", Delay()),
        ("0.25s±10ms", Delay(250.0, 10.0)),
    ],
)
def test_delays_as_they_are_written(text: str, expected: Delay) -> None:
    assert parse_delay(text) == expected
    assert parse_delay(str(expected)) == expected


@pytest.mark.parametrize("text", ["", "5", "5ms±", "±2ms", "5ms±2ms±1ms", "5ms±2", "-5ms", "11s"])
def test_what_is_no_delay_is_refused(text: str) -> None:
    with pytest.raises(BadSpec, match="latency"):
        parse_delay(text)


def test_who_is_meant_by_a_latency_follows_from_the_places() -> None:
    said = ["edge-1=5ms", "rome:edge-2=12.5ms±2ms", "edge:other=40ms"]
    found = sorted_latencies("edge", said, ["rome", "oslo"])
    assert found.cables == {"edge-1": 5.0}
    assert found.clusters == {"other": 40.0}
    assert found.places == {"rome": {"edge-2": Delay(12.5, 2.0)}, "oslo": {}}


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("oslo:edge-2=5ms", "with a --place of that name"),
        ("rome:edge-2=soon", "is not a latency"),
        ("rome:=5ms", "is not a distance"),
        ("edge-1=5ms±1ms", "is not a latency"),
    ],
)
def test_a_latency_that_says_nothing_is_refused(said: str, complaint: str) -> None:
    with pytest.raises(BadSpec, match=complaint):
        sorted_latencies("edge", [said], ["rome"])


@pytest.mark.parametrize("text", ["rome", "rome=5ms", ":edge-1=5ms", "rome:edge-1", "a:b=5"])
def test_a_distance_names_place_node_and_time(text: str) -> None:
    with pytest.raises(BadSpec):
        parse_distance(text)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"places": {"Rome": {}}}, "a place cannot be called 'Rome'"),
        ({"places": {"../x": {}}}, "a place cannot be called"),
        ({"places": {"edge-1": {}}}, "something else has it already"),
        ({"places": {"host": {}}}, "something else has it already"),
        ({"places": {"rome": {"edge-3": Delay(1)}}}, "has no real node 'edge-3'"),
        ({"places": {f"p{n}": {} for n in range(21)}}, "at most 20"),
        ({"places": {"rome": {}}, "nodes": 0}, "ask for real nodes"),
    ],
)
def test_impossible_places_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadSpec, match=complaint):
        LocalClusterSpec(**{"name": "edge", "nodes": 2} | options)


def test_what_differs_is_said_in_the_words_of_the_command_line() -> None:
    said = differences(record().spec, LocalClusterSpec(name="edge", nodes=2))
    assert "it has --place rome rather than none" in said
    assert "it has --latency rome:edge-2=12.5ms±2ms rather than none" in said


def test_a_place_is_a_machine_whose_name_no_node_can_have() -> None:
    assert [each.name for each in holders(record())] == [
        CONTROL_PLANE,
        "edge-1",
        "edge-2",
        "place/rome",
    ]
    home = Home(Path("/state/clusters/edge"))
    assert group_of(home, "place/rome") == top_group_of(home, "place/rome")
    assert top_group_of(home, "place/rome").endswith("/place.rome")
    (proxy,) = place_components(home, record(), "rome")
    assert (proxy.name, proxy.inside) == ("place/rome/kube-proxy", "place/rome")


def test_its_kube_proxy_borrows_the_name_of_the_first_node_but_not_its_ports() -> None:
    files = place_files(Home(Path("/state/clusters/edge")), record(), "rome")
    proxy = yaml.safe_load(files["kube-proxy.yaml"])
    assert proxy["hostnameOverride"] == "edge-1"
    assert proxy["nodePortAddresses"] == ["10.64.1.201/32"]
    assert "nameserver 10.96.16.10" in files["resolv.conf"]


def test_a_place_knows_all_pods_and_has_services_on_its_link() -> None:
    plan = record().addresses
    lines = network.place(plan, 1, 2)
    assert "address replace 10.64.1.201/24 dev eth0" in lines
    assert "route replace 10.129.1.0/24 via 10.64.1.11" in lines
    assert "route replace 10.129.2.0/24 via 10.64.1.12" in lines
    assert f"route replace {plan.services} dev eth0" in lines
    assert not any("default" in line for line in lines)


def test_no_address_of_a_place_is_a_nodes() -> None:
    plan = record().addresses
    nodes = {plan.node(number) for number in range(1, 51)}
    assert nodes.isdisjoint(plan.place(number) for number in range(1, 21))


def test_each_place_has_one_relay_that_reads_its_file(tmp_path: Path) -> None:
    home = Home(tmp_path)
    found = relays(home, record(places={**ROME, "oslo": {}}, latency={"edge-1": 5.0}))
    assert [(relay.name, relay.argv[-1]) for relay in found] == [
        ("relay/node1", "5"),
        ("relay/place1", str(tmp_path / "places/rome/distances")),
        ("relay/place2", str(tmp_path / "places/oslo/distances")),
    ]


def test_distances_are_kept_changed_and_not_reset(tmp_path: Path) -> None:
    home, made = Home(tmp_path), record()
    home.place("rome").mkdir(parents=True)
    distances.write_first(home, made, "rome")
    assert distances.current(home, "rome") == {"edge-1": Delay(), "edge-2": Delay(12.5, 2.0)}
    distances.change(home, made, "rome", {"edge-1": Delay(80)})
    distances.write_first(home, made, "rome")
    assert distances.current(home, "rome") == {"edge-1": Delay(80), "edge-2": Delay(12.5, 2.0)}


def test_distances_that_cannot_be_read_are_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="the distances of place 'rome' cannot be read"):
        distances.current(Home(tmp_path), "rome")
