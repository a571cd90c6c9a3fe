"""Random pods, namespaces and NetworkPolicies, and all the traffic between them."""

from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import msgspec

from edgewise.kube.kinds.networking import NetworkPolicy
from edgewise.local.network.policies.compiler import Address, Endpoint, NamedPort, World

NODES = ("node-1", "node-2")
NETWORKS = {"node-1": ("10.129.1.0/24", "fd00:1::/64"), "node-2": ("10.129.2.0/24", "fd00:2::/64")}
OUTSIDE = {"near": ("10.64.1.1", "fd00:64::1"), "far": ("192.0.2.7", "2001:db8::7")}
# What is tried: a protocol and a port each. 5000 lies inside the ranges, 81 beside them.
TRIED = (("TCP", 80), ("TCP", 81), ("UDP", 5000), ("SCTP", 80))
NAMES = {80: "http", 81: "admin", 5000: "game"}
# Every object has these, because cyclonus takes NotIn to mean "has it, with another value".
EVERYWHERE = ("tier",)


class Flow(msgspec.Struct, frozen=True):
    source: str
    destination: str
    protocol: str
    port: int
    family: int


class Case(msgspec.Struct):
    """One random world."""

    namespaces: dict[str, dict[str, str]]
    endpoints: dict[str, Endpoint]
    policies: list[dict[str, Any]]

    def world(self) -> World:
        typed = msgspec.convert(self.policies, list[NetworkPolicy])
        return World(list(self.endpoints.values()), self.namespaces, typed)

    def address(self, name: str, family: int) -> Address:
        pod = self.endpoints.get(name)
        both = pod.addresses if pod else [ip_address(text) for text in OUTSIDE[name]]
        return next(each for each in both if each.version == family)

    def flows(self, tried: tuple[tuple[str, int], ...] = TRIED) -> list[Flow]:
        """Not from a pod to itself, which no policy forbids; nor between two outside."""
        everybody = [*self.endpoints, *OUTSIDE]
        return [
            Flow(source, destination, protocol, port, family)
            for source in everybody
            for destination in everybody
            if source != destination and (source in self.endpoints or destination in self.endpoints)
            for protocol, port in tried
            for family in (4, 6)
        ]

    def question(self, flows: list[Flow]) -> dict[str, Any]:
        return {"Policies": self.policies, "Traffic": [self._traffic(flow) for flow in flows]}

    def _traffic(self, flow: Flow) -> dict[str, Any]:
        pod = self.endpoints.get(flow.destination)
        names = [
            each.name
            for each in (pod.ports if pod else ())
            if (each.protocol, each.number) == (flow.protocol, flow.port)
        ]
        return {
            "Source": self._peer(flow.source, flow.family),
            "Destination": self._peer(flow.destination, flow.family),
            "ResolvedPort": flow.port,
            "ResolvedPortName": names[0] if names else "",
            "Protocol": flow.protocol,
        }

    def _peer(self, name: str, family: int) -> dict[str, Any]:
        peer: dict[str, Any] = {"IP": str(self.address(name, family))}
        if pod := self.endpoints.get(name):
            peer["Internal"] = {
                "PodLabels": pod.labels,
                "NamespaceLabels": self.namespaces[pod.namespace],
                "Namespace": pod.namespace,
            }
        return peer


def random_case(seed: int, *, nodes: tuple[str, ...] = NODES, pods: int = 6) -> Case:
    rng = random.Random(seed)
    namespaces = {
        name: {"kubernetes.io/metadata.name": name, **_labels(rng)}
        for name in ("red", "blue", "green")
    }
    endpoints = {}
    for number in range(pods):
        node = nodes[number % len(nodes)]
        place = NODES.index(node) + 1
        endpoints[f"pod-{number}"] = Endpoint(
            namespace=rng.choice(list(namespaces)),
            name=f"pod-{number}",
            node=node,
            labels=_labels(rng),
            addresses=(
                IPv4Address(f"10.129.{place}.{number + 2}"),
                IPv6Address(f"fd00:{place}::{number + 2:x}"),
            ),
            ports=tuple(_named_ports(rng)),
        )
    policies = [_policy(rng, number, list(namespaces)) for number in range(rng.randint(1, 4))]
    return Case(namespaces, endpoints, policies)


def _labels(rng: random.Random) -> dict[str, str]:
    made = {key: rng.choice("abc") for key in EVERYWHERE}
    if rng.random() < 0.6:
        made["app"] = rng.choice(("web", "db"))
    return made


def _named_ports(rng: random.Random) -> list[NamedPort]:
    """A name stands for another number here and there."""
    found = []
    for number, name in NAMES.items():
        if rng.random() < 0.6:
            protocol = "UDP" if number == 5000 else rng.choice(("TCP", "TCP", "SCTP"))
            shifted = 81 if name == "http" and rng.random() < 0.2 else number
            found.append(NamedPort(name, protocol, shifted))
    return found if len({(p.protocol, p.number) for p in found}) == len(found) else found[:1]


def _selector(rng: random.Random) -> dict[str, Any]:
    kind = rng.random()
    if kind < 0.25:
        return {}
    if kind < 0.5:
        return {"matchLabels": {"tier": rng.choice("abc")}}
    if kind < 0.65:
        return {"matchLabels": {"app": rng.choice(("web", "db"))}}
    expression: dict[str, Any] = rng.choice(
        [
            {"key": "tier", "operator": "In", "values": rng.sample("abc", 2)},
            {"key": "tier", "operator": "NotIn", "values": rng.sample("abc", rng.randint(1, 2))},
            {"key": "app", "operator": "Exists"},
            {"key": "app", "operator": "DoesNotExist"},
        ]
    )
    made: dict[str, Any] = {"matchExpressions": [expression]}
    if rng.random() < 0.2:
        made["matchLabels"] = {"tier": rng.choice("abc")}
    return made


def _block(rng: random.Random) -> dict[str, Any]:
    cidr, holes = rng.choice(
        [
            ("0.0.0.0/0", ["10.129.0.0/16", "10.129.1.0/24", "10.129.1.4/31", "192.0.2.0/24"]),
            ("10.129.0.0/16", ["10.129.1.2/32", "10.129.2.0/25", "10.129.1.0/29"]),
            ("10.129.1.4/31", []),
            ("192.0.2.0/24", ["192.0.2.0/30"]),
            ("::/0", ["fd00:1::/32", "fd00:2::4/127", "2001:db8::/32"]),
            ("fd00:1::/64", ["fd00:1::2/128"]),
        ]
    )
    made: dict[str, Any] = {"cidr": cidr}
    if holes and rng.random() < 0.6:
        made["except"] = rng.sample(holes, rng.randint(1, len(holes)))
    return made


def _peer(rng: random.Random) -> dict[str, Any]:
    kind = rng.random()
    if kind < 0.3:
        return {"ipBlock": _block(rng)}
    if kind < 0.55:
        return {"podSelector": _selector(rng)}
    if kind < 0.8:
        return {"namespaceSelector": _selector(rng)}
    return {"podSelector": _selector(rng), "namespaceSelector": _selector(rng)}


def _port(rng: random.Random) -> dict[str, Any]:
    kind = rng.random()
    protocol = rng.choice(("TCP", "TCP", "UDP", "SCTP"))
    if kind < 0.2:
        return {"protocol": protocol}
    if kind < 0.45:
        return {"protocol": protocol, "port": rng.choice(list(NAMES.values()))}
    if kind < 0.65:
        first, last = rng.choice(((80, 80), (79, 81), (81, 90), (4000, 6000), (1, 65535)))
        return {"protocol": protocol, "port": first, "endPort": last}
    made: dict[str, Any] = {"port": rng.choice(list(NAMES))}
    return made if rng.random() < 0.3 else {**made, "protocol": protocol}


def _rules(rng: random.Random, peers: str) -> list[dict[str, Any]]:
    made = []
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        rule: dict[str, Any] = {}
        if rng.random() < 0.85:
            rule[peers] = [_peer(rng) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.7:
            rule["ports"] = [_port(rng) for _ in range(rng.randint(1, 3))]
        made.append(rule)
    return made


def _policy(rng: random.Random, number: int, namespaces: list[str]) -> dict[str, Any]:
    types = rng.choice((["Ingress"], ["Egress"], ["Ingress", "Egress"]))
    spec: dict[str, Any] = {"podSelector": _selector(rng), "policyTypes": types}
    # Rules of a direction that is not named count for nothing.
    if "Ingress" in types or rng.random() < 0.2:
        spec["ingress"] = _rules(rng, "from")
    if "Egress" in types or rng.random() < 0.2:
        spec["egress"] = _rules(rng, "to")
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"policy-{number}", "namespace": rng.choice(namespaces)},
        "spec": spec,
    }
