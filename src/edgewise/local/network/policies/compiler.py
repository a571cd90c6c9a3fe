"""What NetworkPolicies let through, worked out for every pod of a node. Pure.

A pod that some policy selects is isolated in that policy's direction: nothing passes but what a
rule of one of its policies allows. Rules speak of pods, namespaces and blocks of addresses; what
comes out speaks of addresses and ports alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address

import msgspec

from edgewise.kube.kinds.networking import (
    EGRESS,
    INGRESS,
    NetworkPolicy,
    NetworkPolicyEgressRule,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicyPort,
)
from edgewise.kube.selecting import selects
from edgewise.local.network.policies.spans import (
    LAST_PORT,
    PortRange,
    Ports,
    Span,
    Stretch,
    everywhere,
    stretch_of,
    together,
    union,
    without,
)

Address = IPv4Address | IPv6Address
Rule = NetworkPolicyIngressRule | NetworkPolicyEgressRule
FAMILIES = (4, 6)
# The protocols that a policy can name; others pass where a rule names no port.
PROTOCOLS = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}


class NamedPort(msgspec.Struct, frozen=True):
    name: str
    protocol: str
    number: int


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A pod with a network of its own. Pods on the node's network are no subjects of policies."""

    namespace: str
    name: str
    node: str
    labels: Mapping[str, str]
    addresses: tuple[Address, ...]
    ports: tuple[NamedPort, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


class Opening(msgspec.Struct, frozen=True):
    """All that an isolated pod lets through in one direction: by whom, to which ports."""

    four: tuple[Span, ...]
    six: tuple[Span, ...]

    def of(self, family: int) -> tuple[Span, ...]:
        return self.four if family == 4 else self.six


class Verdicts(msgspec.Struct, frozen=True):
    """What a node's filter has to know about its own pods."""

    known: tuple[Address, ...]
    ingress: dict[Address, Opening]
    egress: dict[Address, Opening]


class World:
    """Everything that policies speak of, at one moment.

    What a rule comes to is worked out once, however many pods it selects.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        namespaces: Mapping[str, Mapping[str, str]],
        policies: Iterable[NetworkPolicy],
    ) -> None:
        self.endpoints = endpoints
        self.namespaces = namespaces
        self.by_namespace: defaultdict[str, list[Endpoint]] = defaultdict(list)
        for endpoint in endpoints:
            self.by_namespace[endpoint.namespace].append(endpoint)
        self.policies: defaultdict[str, list[NetworkPolicy]] = defaultdict(list)
        for policy in policies:
            self.policies[policy.metadata.namespace].append(policy)
        self._reach: dict[tuple[int, int], tuple[Stretch, ...]] = {}
        self._openings: dict[tuple[object, ...], Opening] = {}
        self.complaints: list[str] = []

    def verdicts(self, node: str) -> Verdicts:
        mine = [endpoint for endpoint in self.endpoints if endpoint.node == node]
        found = Verdicts(tuple(a for pod in mine for a in pod.addresses), {}, {})
        for pod in mine:
            for direction, openings in ((INGRESS, found.ingress), (EGRESS, found.egress)):
                opening = self.opening(pod, direction)
                if opening is not None:
                    openings.update(dict.fromkeys(pod.addresses, opening))
        return found

    def opening(self, pod: Endpoint, direction: str) -> Opening | None:
        """None: the pod is not isolated in this direction."""
        policies = [
            policy
            for policy in self.policies.get(pod.namespace, ())
            if direction in policy.spec.directions and selects(policy.spec.pod_selector, pod.labels)
        ]
        if not policies:
            return None
        # Where traffic comes in, a name of a port is one of this pod's own.
        named = pod.ports if direction == INGRESS else ()
        key = (direction, named, *(id(policy) for policy in policies))
        if key not in self._openings:
            self._openings[key] = self._open(policies, direction, named)
        return self._openings[key]

    def _open(
        self, policies: list[NetworkPolicy], direction: str, named: tuple[NamedPort, ...]
    ) -> Opening:
        spans: dict[int, list[Span]] = {family: [] for family in FAMILIES}
        for policy in policies:
            rules: Sequence[Rule] = (
                policy.spec.ingress if direction == INGRESS else policy.spec.egress
            )
            for rule in rules:
                for family in FAMILIES:
                    reach = self._reach_of(rule, policy, family)
                    spans[family] += (
                        _incoming(rule, reach, named)
                        if direction == INGRESS
                        else self._outgoing(rule, reach, family)
                    )
        return Opening(union(spans[4]), union(spans[6]))

    def _outgoing(self, rule: Rule, reach: Sequence[Stretch], family: int) -> list[Span]:
        """A name of a port is one of the pod that the traffic goes to, wherever that is named."""
        spans = _spans(reach, numbered(rule.ports))
        for port in rule.ports:
            if isinstance(port.port, str):
                spans += [
                    Span(place, place, frozenset([opened]))
                    for pod in self.endpoints
                    for opened in by_name(port, pod.ports)
                    for place in _numbers(pod, family)
                    if any(part.first <= place <= part.last for part in reach)
                ]
        return spans

    def _reach_of(self, rule: Rule, policy: NetworkPolicy, family: int) -> tuple[Stretch, ...]:
        key = (id(rule), family)
        if key not in self._reach:
            self._reach[key] = (
                tuple(part for peer in rule.peers for part in self._addresses(peer, policy, family))
                if rule.peers
                else everywhere(family)
            )
        return self._reach[key]

    def _addresses(
        self, peer: NetworkPolicyPeer, policy: NetworkPolicy, family: int
    ) -> Iterable[Stretch]:
        if peer.ip_block is not None:
            return self._block(peer, policy, family)
        return (
            Stretch(place, place)
            for pod in self._candidates(peer, policy.metadata.namespace)
            if peer.pod_selector is None or selects(peer.pod_selector, pod.labels)
            for place in _numbers(pod, family)
        )

    def _candidates(self, peer: NetworkPolicyPeer, own: str) -> Iterable[Endpoint]:
        if peer.namespace_selector is None:
            # A peer that names nothing at all is refused by the API server; it opens nothing.
            return self.by_namespace.get(own, ()) if peer.pod_selector is not None else ()
        selector = peer.namespace_selector
        return (
            pod
            for name, pods in self.by_namespace.items()
            if name in self.namespaces and selects(selector, self.namespaces[name])
            for pod in pods
        )

    def _block(
        self, peer: NetworkPolicyPeer, policy: NetworkPolicy, family: int
    ) -> Iterable[Stretch]:
        assert peer.ip_block is not None  # noqa: S101 - for the type checker
        try:
            whole = stretch_of(peer.ip_block.cidr, family)
            holes = [stretch_of(cidr, family) for cidr in peer.ip_block.besides]
        except ValueError as error:
            # The API server takes some spellings that nothing else does. Nothing is opened by them.
            where = f"{policy.metadata.namespace}/{policy.metadata.name}"
            self.complaints.append(f"NetworkPolicy {where} has a block that opens nothing: {error}")
            return ()
        if whole is None:
            return ()
        return without(whole, [hole for hole in holes if hole is not None])


def _incoming(rule: Rule, reach: Sequence[Stretch], named: tuple[NamedPort, ...]) -> list[Span]:
    mine = [frozenset(by_name(port, named)) for port in rule.ports if isinstance(port.port, str)]
    return _spans(reach, together([numbered(rule.ports), *mine]))


def _spans(reach: Sequence[Stretch], ports: Ports) -> list[Span]:
    if ports is not None and not ports:
        return []
    return [Span(part.first, part.last, ports) for part in reach]


def numbered(ports: Sequence[NetworkPolicyPort]) -> Ports:
    """What is open by number; without any port, everything is."""
    if not ports:
        return None
    found = []
    for port in ports:
        protocol = PROTOCOLS.get(port.protocol)
        if protocol is None or isinstance(port.port, str):
            continue
        first = 0 if port.port is None else port.port
        last = LAST_PORT if port.port is None else port.end_port or port.port
        if 0 <= first <= last <= LAST_PORT:
            found.append(PortRange(protocol, first, last))
    return together([frozenset(found)])


def by_name(port: NetworkPolicyPort, named: Iterable[NamedPort]) -> list[PortRange]:
    return [
        PortRange(PROTOCOLS[each.protocol], each.number, each.number)
        for each in named
        if each.name == port.port and each.protocol == port.protocol and each.protocol in PROTOCOLS
    ]


def _numbers(pod: Endpoint, family: int) -> Iterable[int]:
    return (int(address) for address in pod.addresses if address.version == family)
