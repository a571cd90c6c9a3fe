"""What NetworkPolicies come to, as sentences. cyclonus judges the rest (tests/integration)."""

from __future__ import annotations

import itertools
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.kube.kinds.admission import LabelSelector
from edgewise.kube.kinds.networking import EGRESS, INGRESS, NetworkPolicy
from edgewise.kube.selecting import selects
from edgewise.local.network.policies.compiler import Endpoint, NamedPort, World
from edgewise.local.network.policies.ruleset import closed, removal, ruleset
from edgewise.local.network.policies.spans import (
    PortRange,
    Span,
    Stretch,
    stretch_of,
    union,
    without,
)
from tests.oracles.network_policy.reading import Ruleset

WEB = Endpoint(
    namespace="red",
    name="web",
    node="n1",
    labels={"app": "web"},
    addresses=(IPv4Address("10.1.1.2"), IPv6Address("fd00::2")),
    ports=(NamedPort("http", "TCP", 8080),),
)
DB = Endpoint(
    namespace="red",
    name="db",
    node="n1",
    labels={"app": "db"},
    addresses=(IPv4Address("10.1.1.3"), IPv6Address("fd00::3")),
    ports=(NamedPort("http", "TCP", 9090),),
)
FAR = Endpoint(
    namespace="blue",
    name="far",
    node="n2",
    labels={"app": "web"},
    addresses=(IPv4Address("10.1.2.2"),),
)
NAMESPACES = {"red": {"colour": "red"}, "blue": {"colour": "blue"}}


def policy(**spec: Any) -> NetworkPolicy:
    selected = {"podSelector": {"matchLabels": {"app": "db"}}}
    made = {"metadata": {"name": "p", "namespace": "red"}, "spec": {**selected, **spec}}
    return msgspec.convert(made, NetworkPolicy)


def world(*policies: NetworkPolicy) -> World:
    return World([WEB, DB, FAR], NAMESPACES, policies)


def reads(made: World, node: str = "n1") -> Ruleset:
    return Ruleset(ruleset(made.verdicts(node), [ip_network("10.1.1.0/24")], "eth0"))


def lets_in(made: World, peer: Endpoint, protocol: str = "TCP", port: int = 80) -> bool:
    return reads(made).allows("ingress", DB.addresses[0], peer.addresses[0], protocol, port)


def lets_out(made: World, peer: Endpoint, protocol: str = "TCP", port: int = 80) -> bool:
    return reads(made).allows("egress", DB.addresses[0], peer.addresses[0], protocol, port)


INTO: dict[str, tuple[dict[str, Any], Endpoint, int, bool]] = {
    "a policy without rules lets nothing in": ({}, WEB, 80, False),
    "a rule that names nothing lets everything in": ({"ingress": [{}]}, FAR, 80, True),
    "a pod selector alone is of the policy's own namespace": (
        {"ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}]},
        FAR,
        80,
        False,
    ),
    "both selectors in one peer have to be met": (
        {
            "ingress": [
                {
                    "from": [
                        {
                            "podSelector": {"matchLabels": {"app": "web"}},
                            "namespaceSelector": {"matchLabels": {"colour": "blue"}},
                        }
                    ]
                }
            ]
        },
        WEB,
        80,
        False,
    ),
    "two peers are two ways in": (
        {
            "ingress": [
                {
                    "from": [
                        {"podSelector": {"matchLabels": {"app": "none"}}},
                        {"namespaceSelector": {"matchLabels": {"colour": "blue"}}},
                    ]
                }
            ]
        },
        FAR,
        80,
        True,
    ),
    "a name of a port is the selected pod's own": (
        {"ingress": [{"ports": [{"port": "http"}]}]},
        WEB,
        9090,
        True,
    ),
    "a name that the pod does not have opens nothing": (
        {"ingress": [{"ports": [{"port": "metrics"}]}]},
        WEB,
        9090,
        False,
    ),
    "a port without a protocol is TCP": ({"ingress": [{"ports": [{"port": 80}]}]}, WEB, 80, True),
    "a range holds its last port": (
        {"ingress": [{"ports": [{"port": 70, "endPort": 80}]}]},
        WEB,
        80,
        True,
    ),
    "what is excepted from a block stays out": (
        {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.1.2/32"]}}]}]},
        WEB,
        80,
        False,
    ),
    "a block that only the API server can read opens nothing": (
        {"ingress": [{"from": [{"ipBlock": {"cidr": "010.0.0.0/8"}}]}]},
        WEB,
        80,
        False,
    ),
    "a hole that cannot be read closes its block": (
        {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["010.9.0.0/16"]}}]}]},
        WEB,
        80,
        False,
    ),
}


@pytest.mark.parametrize("sentence", INTO)
def test_into_a_pod(sentence: str) -> None:
    spec, peer, port, expected = INTO[sentence]
    assert lets_in(world(policy(policyTypes=["Ingress"], **spec)), peer, port=port) is expected


def test_a_policy_isolates_in_the_directions_that_it_names() -> None:
    made = world(policy(policyTypes=["Egress"]))
    assert lets_in(made, WEB)
    assert not lets_out(made, WEB)


def test_a_policy_that_names_none_is_about_egress_only_if_it_has_such_rules() -> None:
    assert policy().spec.directions == {INGRESS}
    assert policy(egress=[{}]).spec.directions == {INGRESS, EGRESS}


def test_policies_add_up() -> None:
    closed_to_all = policy(policyTypes=["Ingress"])
    opened = policy(policyTypes=["Ingress"], ingress=[{"ports": [{"port": 80}]}])
    assert lets_in(world(closed_to_all, opened), WEB, port=80)
    assert not lets_in(world(closed_to_all, opened), WEB, port=81)


def test_a_pod_that_no_policy_selects_is_open() -> None:
    found = world(policy()).verdicts("n1")
    assert set(found.ingress) == set(DB.addresses)
    assert found.egress == {}
    assert set(found.known) == {*WEB.addresses, *DB.addresses}


def test_out_of_a_pod_a_name_of_a_port_is_the_other_pods() -> None:
    made = world(policy(policyTypes=["Egress"], egress=[{"ports": [{"port": "http"}]}]))
    assert lets_out(made, WEB, port=8080)
    assert not lets_out(made, WEB, port=9090)
    assert not lets_out(made, FAR, port=8080)


def test_each_address_family_is_judged_by_its_own_blocks() -> None:
    made = world(policy(ingress=[{"from": [{"ipBlock": {"cidr": "::/0"}}]}]))
    assert not lets_in(made, WEB)
    assert reads(made).allows("ingress", DB.addresses[1], WEB.addresses[1], "TCP", 80)


def test_a_namespace_that_is_not_known_meets_no_selector() -> None:
    rule = {"from": [{"namespaceSelector": {}}]}
    made = World([DB, FAR], {"red": {}}, [policy(ingress=[rule])])
    assert not lets_in(made, FAR)


def test_what_cannot_be_read_is_complained_about_by_name() -> None:
    made = world(policy(ingress=[{"from": [{"ipBlock": {"cidr": "010.0.0.0/8"}}]}]))
    made.verdicts("n1")
    assert any("red/p" in complaint for complaint in made.complaints)


def test_pods_with_the_same_openings_share_a_chain() -> None:
    everything = {"podSelector": {}}
    made = world(policy(**everything, policyTypes=["Ingress"]))
    text = ruleset(made.verdicts("n1"), [ip_network("10.1.1.0/24")], "eth0")
    assert text.count("chain ingress_") == 1
    assert text.startswith(removal())


def test_who_is_not_known_waits() -> None:
    text = closed([ip_network("10.1.1.0/24")], "eth0")
    assert "ip saddr 10.1.1.0/24 ip saddr != @known4 drop" in text
    assert "ip daddr 10.1.1.0/24 ip daddr != @known4 drop" in text


SELECTED: dict[str, tuple[dict[str, Any], dict[str, str], bool]] = {
    "an empty selector selects all": ({}, {}, True),
    "In wants one of the values": (
        {"key": "a", "operator": "In", "values": ["1", "2"]},
        {"a": "2"},
        True,
    ),
    "In wants the label": ({"key": "a", "operator": "In", "values": ["1"]}, {}, False),
    # cyclonus says no here; Kubernetes says yes.
    "NotIn is met without the label": (
        {"key": "a", "operator": "NotIn", "values": ["1"]},
        {},
        True,
    ),
    "NotIn refuses its values": (
        {"key": "a", "operator": "NotIn", "values": ["1"]},
        {"a": "1"},
        False,
    ),
    "Exists wants the label": ({"key": "a", "operator": "Exists"}, {}, False),
    "DoesNotExist wants it away": ({"key": "a", "operator": "DoesNotExist"}, {"a": ""}, False),
    "an operator nobody knows selects nothing": (
        {"key": "a", "operator": "Gt"},
        {"a": "1"},
        False,
    ),
}


@pytest.mark.parametrize("sentence", SELECTED)
def test_selectors(sentence: str) -> None:
    expression, labels, expected = SELECTED[sentence]
    selector = LabelSelector(match_expressions=[expression] if expression else [])
    assert selects(selector, labels) is expected


def test_an_empty_value_is_not_an_absent_label() -> None:
    assert not selects(LabelSelector(match_labels={"a": ""}), {})
    assert selects(LabelSelector(match_labels={"a": ""}), {"a": ""})


PORTS = st.one_of(
    st.none(),
    st.frozensets(
        st.builds(
            lambda protocol, first, length: PortRange(protocol, first, first + length),
            st.sampled_from(["tcp", "udp"]),
            st.integers(0, 12),
            st.integers(0, 4),
        ),
        max_size=3,
    ),
)
SPANS = st.lists(
    st.builds(
        lambda first, length, ports: Span(first, first + length, ports),
        st.integers(0, 30),
        st.integers(0, 10),
        PORTS,
    ),
    max_size=8,
)


def opens(spans: tuple[Span, ...] | list[Span], place: int, protocol: str, port: int) -> bool:
    return any(
        span.first <= place <= span.last
        and (
            span.ports is None
            or any(p.protocol == protocol and p.first <= port <= p.last for p in span.ports)
        )
        for span in spans
    )


@given(SPANS)
def test_a_union_opens_the_same_and_overlaps_nowhere(spans: list[Span]) -> None:
    found = union(spans)
    for place in range(42):
        for protocol in ("tcp", "udp", "icmp"):
            for port in range(18):
                expected = opens(spans, place, protocol, port)
                assert opens(found, place, protocol, port) == expected
    for one, other in itertools.pairwise(found):
        assert one.last < other.first
    for span in found:
        ranges = sorted(span.ports or ())
        assert all(
            a.protocol != b.protocol or a.last + 1 < b.first for a, b in itertools.pairwise(ranges)
        )


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=5))
def test_holes_are_cut_out_exactly(holes: list[tuple[int, int]]) -> None:
    cut = [Stretch(first, first + length) for first, length in holes]
    left = without(Stretch(5, 35), cut)
    for place in range(45):
        expected = 5 <= place <= 35 and not any(h.first <= place <= h.last for h in cut)
        assert any(part.first <= place <= part.last for part in left) == expected


def test_a_network_with_more_than_its_prefix_is_read_as_the_network() -> None:
    assert stretch_of("10.0.0.9/31", 4) == Stretch((10 << 24) + 8, (10 << 24) + 9)
    assert stretch_of("10.0.0.9/31", 6) is None
