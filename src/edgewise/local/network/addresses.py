"""Which addresses a cluster gets: all of them follow from one number, its index.

Clusters never overlap, so that two of them can be joined without translation:

    10.64.N.0/24          the segment that joins nodes and control plane
    10.65.N.0/30          the link between control plane and host
    10.(96+N/16).*.0/20   Services
    10.(128+N).0.0/16     pods: one /24 for each node, the upper half for simulated ones
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network

import msgspec

INDEXES = range(1, 120)

_FIRST_NODE = 11
_FIRST_PLACE = 201


class AddressPlan(msgspec.Struct, frozen=True):
    index: int

    def __post_init__(self) -> None:
        if self.index not in INDEXES:
            raise ValueError(f"no addresses for index {self.index}")

    @property
    def segment(self) -> IPv4Network:
        return IPv4Network(f"10.64.{self.index}.0/24")

    @property
    def control_plane(self) -> IPv4Address:
        return self.segment[1]

    def node(self, number: int) -> IPv4Address:
        """The address of real node `number`, counted from 1."""
        return self.segment[_FIRST_NODE + number - 1]

    def place(self, number: int) -> IPv4Address:
        """The address of place `number`, counted from 1."""
        return self.segment[_FIRST_PLACE + number - 1]

    @property
    def uplink(self) -> IPv4Network:
        return IPv4Network(f"10.65.{self.index}.0/30")

    @property
    def uplink_inside(self) -> IPv4Address:
        return self.uplink[1]

    @property
    def host(self) -> IPv4Address:
        """The host as the control plane sees it; webhooks on the host listen here."""
        return self.uplink[2]

    @property
    def services(self) -> IPv4Network:
        return IPv4Network(f"10.{96 + self.index // 16}.{self.index % 16 * 16}.0/20")

    @property
    def api_service(self) -> IPv4Address:
        return self.services[1]

    @property
    def dns_service(self) -> IPv4Address:
        return self.services[10]

    @property
    def pods(self) -> IPv4Network:
        return IPv4Network(f"10.{128 + self.index}.0.0/16")

    def pods_of(self, number: int) -> IPv4Network:
        """The pods of real node `number`, counted from 1."""
        return IPv4Network(f"10.{128 + self.index}.{number}.0/24")

    @property
    def simulated_pods(self) -> IPv4Network:
        return IPv4Network(f"10.{128 + self.index}.128.0/17")

    @property
    def networks(self) -> tuple[IPv4Network, ...]:
        return (self.segment, self.uplink, self.services, self.pods)


def free_index(taken: Iterable[int], avoid: Iterable[IPv4Network] = ()) -> int | None:
    """The lowest index that nobody has and that overlaps no network of this machine."""
    used, networks = set(taken), list(avoid)
    for index in INDEXES:
        if index in used:
            continue
        mine = AddressPlan(index).networks
        if not any(ours.overlaps(theirs) for ours in mine for theirs in networks):
            return index
    return None
