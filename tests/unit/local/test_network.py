from edgewise.local.network import commands as network
from edgewise.local.network.addresses import AddressPlan
from edgewise.local.network.connections import Peer

ONE, OTHER = AddressPlan(1), AddressPlan(2)


def test_there_is_no_default_route_anywhere() -> None:
    everything = [
        *network.control_plane_links(ONE),
        *network.control_plane_routes(ONE, 3),
        *network.node(ONE, 1, 3),
        *network.host(ONE, "ew-x"),
        *network.peer_routes(OTHER),
        *network.routes_to_peers(ONE, [Peer("/x", 2)]),
    ]
    assert everything
    assert not any("default" in line or " 0.0.0.0/0" in line for line in everything)


def test_a_node_knows_the_pods_of_all_others_but_not_its_own() -> None:
    lines = network.node(ONE, 2, 3)
    assert "route replace 10.129.1.0/24 via 10.64.1.11" in lines
    assert "route replace 10.129.3.0/24 via 10.64.1.13" in lines
    assert not any("10.129.2.0/24" in line for line in lines)


def test_a_node_has_a_way_to_services_that_leads_in_no_circle() -> None:
    # By way of the control plane, which sends Services to node 1, it would come back.
    for number in (1, 2):
        assert f"route replace {ONE.services} dev eth0" in network.node(ONE, number, 3)


def test_the_host_lets_in_answers_and_the_api_server() -> None:
    rules = network.host_filter("edgewise-x", ONE, "ew-x")
    inputs = rules[rules.index("chain input") : rules.index("chain forward")]
    assert "ct state established,related accept" in inputs
    assert "ip saddr 10.65.1.1 ip daddr 10.65.1.2 meta l4proto tcp accept" in inputs
    assert inputs.rstrip().removesuffix("}").rstrip().endswith("drop")
    assert 'iifname "ew-x" drop' in rules
    assert 'oifname "ew-x" drop' in rules


def test_packets_for_a_cluster_never_leave_by_another_link() -> None:
    rules = network.host_filter("edgewise-x", ONE, "ew-x")
    assert 'ip daddr { 10.64.1.0/24, 10.129.0.0/16, 10.96.16.0/20 } oifname != "ew-x" drop' in rules


def test_the_control_plane_forwards_to_the_host_nothing_but_answers() -> None:
    rules = network.control_plane_filter(ONE)
    assert "policy drop" in rules
    assert 'iifname "br0" oifname "uplink" ct state established,related accept' in rules
    assert 'iifname "to-*" oifname "uplink"' not in rules


def test_a_cut_cable_is_a_link_that_is_down() -> None:
    assert "link set node2 down" in network.plug_in("node2", connected=False)
    assert "link set node2 up" in network.plug_in("node2")
    assert "link set uplink down" in network.control_plane_links(ONE, connected=False)


def test_the_ends_of_a_cable_between_clusters_are_named_after_the_other_end() -> None:
    mine, theirs = network.peer_link(OTHER.index), network.peer_link(ONE.index)
    assert (mine, theirs) == ("to-2", "to-1")
    assert network.cable(mine, 100, theirs, 200, slow=False) == [
        "link add name to-1 netns 200 type veth peer name to-2 netns 100"
    ]


def test_a_slow_cable_is_in_two_pieces_with_silent_ends_between_them() -> None:
    assert network.cable("node1", 100, "eth0", 200, slow=True) == [
        "link add name node1 netns 100 type veth peer name node1.a netns 100",
        "link add name eth0 netns 200 type veth peer name node1.b netns 100",
    ]
    assert network.relay_ends("node1") == [
        "link set node1.a arp off up",
        "link set node1.b arp off up",
    ]


def test_a_cable_to_the_host_needs_no_namespace_there() -> None:
    assert network.cable("uplink", 100, "ew-x", None, slow=False) == [
        "link add name ew-x type veth peer name uplink netns 100"
    ]
