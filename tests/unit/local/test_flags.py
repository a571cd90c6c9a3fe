"""The flags and files of every program, and the names that keep clusters apart."""

import json
from pathlib import Path

import pytest
import yaml

from edgewise.local.component import CONTROL_PLANE
from edgewise.local.control_plane.bootstrap import first_objects, node_labels, simulated_node
from edgewise.local.control_plane.programs import SIMULATED, control_plane, corefile
from edgewise.local.layout import ClusterRecord, Home, Ports
from edgewise.local.machines.node_components import holders, node_components
from edgewise.local.machines.node_files import node_files
from edgewise.local.spec import LocalClusterSpec

NOW = "2026-01-01T00:00:00Z"
PROGRAMS = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "coredns",
    "kubelet",
    "kube-proxy",
    "init",
    "containerd",
    "cni-plugins",
]


def record(spec: LocalClusterSpec) -> ClusterRecord:
    return ClusterRecord(
        spec=spec,
        index=7,
        programs={name: f"/engine/{name}" for name in PROGRAMS},
        ports=None if spec.real else Ports(api=22001, etcd=22002, etcd_peer=22003),
    )


@pytest.fixture
def home() -> Home:
    return Home(Path("/state/clusters/edge-1"))


LOOPBACK = record(LocalClusterSpec(name="edge-1", simulated_nodes=3))
REAL = record(LocalClusterSpec(name="edge-1", nodes=2, simulated_nodes=3, region="eu-west"))


def argv(home: Home, made: ClusterRecord, name: str) -> tuple[str, ...]:
    return next(c.argv for c in control_plane(home, made) if c.name == name)


def test_a_cluster_on_loopback_listens_nowhere_else(home: Home) -> None:
    api = argv(home, LOOPBACK, "kube-apiserver")
    assert "--bind-address=127.0.0.1" in api
    assert "--secure-port=22001" in api
    assert "--etcd-servers=https://127.0.0.1:22002" in api
    etcd = argv(home, LOOPBACK, "etcd")
    assert "--listen-client-urls=https://127.0.0.1:22002" in etcd
    assert "--listen-peer-urls=https://127.0.0.1:22003" in etcd
    for name in ("kube-controller-manager", "kube-scheduler"):
        assert "--secure-port=0" in argv(home, LOOPBACK, name)


def test_nobody_talks_to_etcd_or_the_api_server_without_a_certificate(home: Home) -> None:
    for made in (LOOPBACK, REAL):
        etcd = argv(home, made, "etcd")
        assert "--client-cert-auth=true" in etcd
        assert "--peer-client-cert-auth=true" in etcd
        api = argv(home, made, "kube-apiserver")
        assert "--anonymous-auth=false" in api
        assert "--authorization-mode=Node,RBAC" in api
        assert not any("insecure" in flag for flag in api)


def test_programs_live_in_their_machines(home: Home) -> None:
    assert {c.inside for c in control_plane(home, LOOPBACK)} == {""}
    assert {c.inside for c in control_plane(home, REAL)} == {CONTROL_PLANE}
    assert [c.name for c in node_components(home, REAL, 2)] == [
        "edge-1-2/containerd",
        "edge-1-2/kubelet",
        "edge-1-2/kube-proxy",
    ]
    assert {c.inside for c in node_components(home, REAL, 2)} == {"edge-1-2"}
    assert [c.name for c in holders(REAL)] == [CONTROL_PLANE, "edge-1-1", "edge-1-2"]


def test_only_what_is_needed_is_started(home: Home) -> None:
    def names(spec: LocalClusterSpec) -> set[str]:
        return {component.name for component in control_plane(home, record(spec))}

    assert names(LocalClusterSpec(controllers=False)) == {"etcd", "kube-apiserver"}
    assert "kwok" not in names(LocalClusterSpec(nodes=1))
    assert "coredns" not in names(LocalClusterSpec(simulated_nodes=1))


def test_the_kubelet_says_where_its_node_is(home: Home) -> None:
    kubelet = node_components(home, REAL, 2)[1].argv
    assert (
        "--node-labels=topology.kubernetes.io/region=eu-west,"
        "topology.kubernetes.io/zone=eu-west-b" in kubelet
    )
    assert f"--node-ip={REAL.addresses.node(2)}" in kubelet


def test_nodes_have_files_of_their_own(home: Home) -> None:
    one, two = node_files(home, REAL, 1), node_files(home, REAL, 2)
    assert one["machine-id"] != two["machine-id"]
    network = json.loads(two["cni/10-edgewise.conflist"])["plugins"][0]
    assert network["ipam"]["ranges"] == [[{"subnet": "10.135.2.0/24"}]]
    assert network["ipMasq"] is False
    kubelet = yaml.safe_load(two["kubelet.yaml"])
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["clusterDNS"] == [str(REAL.addresses.dns_service)]
    proxy = yaml.safe_load(two["kube-proxy.yaml"])
    assert proxy["clusterCIDR"] == "10.135.0.0/16"


def test_dns_is_never_forwarded(home: Home) -> None:
    assert "forward" not in corefile(home)


def test_simulated_nodes_keep_to_themselves_only_beside_real_ones() -> None:
    assert simulated_node(LOOPBACK, 1, NOW)["spec"]["taints"] == []
    taints = simulated_node(REAL, 1, NOW)["spec"]["taints"]
    assert taints == [{"key": SIMULATED, "value": "true", "effect": "NoSchedule"}]


def test_zones_take_turns() -> None:
    spec = LocalClusterSpec(region="eu")
    zones = [node_labels(spec, n)["topology.kubernetes.io/zone"] for n in (1, 2, 3, 4)]
    assert zones == ["eu-a", "eu-b", "eu-c", "eu-a"]


def test_the_first_objects_are_those_that_somebody_needs() -> None:
    def kinds(made: ClusterRecord) -> set[str]:
        return {f"{obj['kind']}/{obj['metadata']['name']}" for obj in first_objects(made)}

    assert kinds(record(LocalClusterSpec())) == set()
    assert "ClusterRole/edgewise:kwok" in kinds(LOOPBACK)
    assert {"Service/kube-dns", "EndpointSlice/kube-dns"} <= kinds(REAL)


def test_names_follow_from_the_folder_and_fit_the_kernel() -> None:
    one = Home(Path("/home/a/.local/state/edgewise/clusters/edge-1"))
    other = Home(Path("/home/b/.local/state/edgewise/clusters/edge-1"))
    again = Home(Path("/home/a/.local/state/edgewise/clusters/edge-1"))
    assert one.host_link == again.host_link
    assert one.host_link != other.host_link
    assert one.cgroup != other.cgroup
    assert one.filter_table != other.filter_table
    assert len(one.host_link) <= 15
