from ipaddress import IPv4Network
from itertools import combinations, pairwise

import pytest

from edgewise.local.network.addresses import INDEXES, AddressPlan, free_index
from edgewise.local.network.host_networks import networks_in


def test_no_two_clusters_overlap() -> None:
    networks = [network for index in INDEXES for network in AddressPlan(index).networks]
    networks.sort()
    for one, next_one in pairwise(networks):
        assert not one.overlaps(next_one)


def test_the_networks_of_one_cluster_do_not_overlap() -> None:
    for index in INDEXES:
        for one, other in combinations(AddressPlan(index).networks, 2):
            assert not one.overlaps(other)


@pytest.mark.parametrize("index", [INDEXES.start, 17, INDEXES.stop - 1])
def test_every_address_lies_in_its_network(index: int) -> None:
    plan = AddressPlan(index)
    assert plan.control_plane in plan.segment
    assert plan.host in plan.uplink
    assert plan.uplink_inside in plan.uplink
    assert plan.api_service in plan.services
    assert plan.dns_service in plan.services
    assert plan.simulated_pods.subnet_of(plan.pods)
    for number in (1, 50):
        assert plan.node(number) in plan.segment
        assert plan.pods_of(number).subnet_of(plan.pods)
        assert not plan.pods_of(number).overlaps(plan.simulated_pods)


@pytest.mark.parametrize("index", [0, 120, -1])
def test_an_index_outside_the_range_is_refused(index: int) -> None:
    with pytest.raises(ValueError, match="no addresses"):
        AddressPlan(index)


def test_the_lowest_free_index_is_taken() -> None:
    assert free_index([]) == 1
    assert free_index([1, 2, 4]) == 3


def test_an_index_that_overlaps_a_network_of_the_machine_is_left_out() -> None:
    assert free_index([], [IPv4Network("10.129.7.0/24")]) == 2
    assert free_index([], [IPv4Network("10.65.1.0/30"), IPv4Network("10.66.0.0/16")]) == 2


def test_when_all_is_taken_there_is_none() -> None:
    assert free_index(INDEXES) is None
    assert free_index([], [IPv4Network("10.0.0.0/8")]) is None


def test_routes_of_the_machine_besides_the_clusters_own() -> None:
    routes = [
        {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
        {"dst": "192.0.2.0/24", "dev": "eth0"},
        {"dst": "10.9.8.7", "dev": "tun0"},
        {"dst": "10.129.0.0/16", "dev": "ew-0123abcd"},
    ]
    assert networks_in(routes, "ew-0123abcd") == [
        IPv4Network("192.0.2.0/24"),
        IPv4Network("10.9.8.7/32"),
    ]
