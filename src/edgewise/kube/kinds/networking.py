"""NetworkPolicy: which traffic pods take and make."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from edgewise.kube.kinds.admission import LabelSelector
from edgewise.kube.objects import Kind, Object, Record

INGRESS = "Ingress"
EGRESS = "Egress"


class NetworkPolicyPort(Record):
    protocol: str = "TCP"
    # A number, or the name of a pod's port; without, all ports of the protocol.
    port: int | str | None = None
    end_port: int | None = None


class IPBlock(Record):
    cidr: str = ""
    besides: list[str] = msgspec.field(name="except", default_factory=list)


class NetworkPolicyPeer(Record):
    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IPBlock | None = None


class NetworkPolicyIngressRule(Record):
    ports: list[NetworkPolicyPort] = []
    peers: list[NetworkPolicyPeer] = msgspec.field(name="from", default_factory=list)


class NetworkPolicyEgressRule(Record):
    ports: list[NetworkPolicyPort] = []
    peers: list[NetworkPolicyPeer] = msgspec.field(name="to", default_factory=list)


class NetworkPolicySpec(Record):
    # An empty selector selects all; it is written all the same, because the API wants the field.
    pod_selector: LabelSelector = msgspec.field(default_factory=LabelSelector)
    policy_types: list[str] = []
    ingress: list[NetworkPolicyIngressRule] = []
    egress: list[NetworkPolicyEgressRule] = []

    @property
    def directions(self) -> set[str]:
        """Those in which it isolates pods; a server that was not told fills in the same."""
        if self.policy_types:
            return set(self.policy_types)
        return {INGRESS, EGRESS} if self.egress else {INGRESS}


class NetworkPolicy(Object):
    KIND: ClassVar = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")

    spec: NetworkPolicySpec = msgspec.field(default_factory=NetworkPolicySpec)
