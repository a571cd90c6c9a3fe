import pytest

from edgewise.local.errors import BadSpec
from edgewise.local.machines.node_health import node_health
from edgewise.local.network.latency import parse_latency
from edgewise.local.spec import LocalClusterSpec


@pytest.mark.parametrize("name", ["a", "edge-1", "x" * 30])
def test_good_names(name: str) -> None:
    assert LocalClusterSpec(name=name).name == name


@pytest.mark.parametrize("name", ["", "Edge", "1edge", "-a", "a-", "a/b", "a b", "../x", "x" * 31])
def test_bad_names_are_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(BadSpec, match="cannot be called"):
        LocalClusterSpec(name=name)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"nodes": -1}, "real nodes"),
        ({"nodes": 51}, "real nodes"),
        ({"simulated_nodes": -1}, "simulated nodes"),
        ({"simulated_nodes": 5001}, "simulated nodes"),
        ({"region": "not a label"}, "region"),
        ({"region": ""}, "region"),
        ({"nodes": 1, "controllers": False}, "controllers"),
        ({"nodes": 1, "latency": {"edgewise-2": 5.0}}, "no cable leads to"),
        ({"simulated_nodes": 1, "latency": {"host": 5.0}}, "ask for real nodes"),
    ],
)
def test_impossible_wishes_are_refused(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(BadSpec, match=complaint):
        LocalClusterSpec(**options)  # type: ignore[arg-type]


def test_names_of_nodes_tell_the_cluster() -> None:
    spec = LocalClusterSpec(name="edge-1", nodes=2, simulated_nodes=1)
    assert spec.node_names == ["edge-1-1", "edge-1-2"]
    assert spec.simulated_names == ["edge-1-sim-1"]
    assert spec.real
    assert not LocalClusterSpec(simulated_nodes=3).real


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("edge-1-1=20ms", ("edge-1-1", 20.0)),
        ("a=0.5ms", ("a", 0.5)),
        ("a=2s", ("a", 2000.0)),
        ("edge-1:edge-2=40ms", ("edge-1:edge-2", 40.0)),
    ],
)
def test_latencies(text: str, expected: tuple[str, float]) -> None:
    assert parse_latency(text) == expected


@pytest.mark.parametrize("text", ["", "a", "a=20", "a=ms", "a=-1ms", "=5ms", "a=11s", "a=1min"])
def test_bad_latencies_are_refused(text: str) -> None:
    with pytest.raises(BadSpec):
        parse_latency(text)


@pytest.mark.parametrize("simulated", [0, 1, 20, 21, 200, 201, 5000])
def test_a_node_gets_several_chances_to_renew_before_it_counts_as_lost(simulated: int) -> None:
    health = node_health(LocalClusterSpec(nodes=1, simulated_nodes=simulated))
    assert health.lease_seconds / 4 * 3 < health.grace_seconds
    if simulated:
        assert health.simulated_lease_seconds / 4 * 1.5 < health.grace_seconds
