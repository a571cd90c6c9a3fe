"""What a plan may know. Everything in here is a value: a plan reads nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import msgspec

from edgewise.api.sessions import Session, Workload
from edgewise.sessions.digest import Digest
from edgewise.sessions.site import Site


class PodSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of a pod."""

    name: str
    uid: str
    revision: str
    ordinal: int
    ip: str = ""
    host_ip: str = ""
    node: str = ""
    ready: bool = False
    ended: bool = False  # its containers have ended for good
    deleting: bool = False
    restarts: tuple[tuple[str, int], ...] = ()  # of its containers, where there were any
    pooled: bool = False  # belongs to the template, and is only lent to a session
    trouble: str = ""  # why it does not start
    # (container port, TCP or UDP) -> the port of its node that leads there
    host_ports: Mapping[tuple[int, str], int] = {}

    def restarts_of(self, container: str | None) -> int:
        return next((count for name, count in self.restarts if name == container), 0)


class ClaimSeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The Lease of a pooled pod: which session has it, or until when it waits for one."""

    pod: str
    pod_uid: str
    uid: str
    version: str
    holder: str = ""  # uid of a session
    holder_key: str = ""
    ordinal: int = -1
    until: float | None = None
    restarts: int = 0  # of the container when the pool began to clean the pod


class PortClaimSeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    number: int
    protocol: str
    uid: str
    version: str


class ChildSeen(msgspec.Struct, frozen=True, kw_only=True):
    """An object that was made from a manifest, and the digest of that manifest."""

    kind: str
    name: str
    uid: str
    digest: str
    # By port name: the node port, and where a load balancer or a Gateway listens.
    node_ports: Mapping[str, int] = {}
    ingress: str = ""
    accepted: bool = False


class TemplateSeen(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str
    deleting: bool = False


# Of a revision, pods that are free, with their Leases, if they have any.
Shelf = Callable[[str], Iterator[tuple[PodSeen, ClaimSeen | None]]]


def empty_shelf(_: str) -> Iterator[tuple[PodSeen, ClaimSeen | None]]:
    return iter(())


# (protocol, where to begin, what else is taken) -> a port that seems free, or None.
PickPort = Callable[[str, str, Set[int]], int | None]


def no_port(_: str, __: str, ___: Set[int]) -> int | None:
    return None


def no_matter(_: int, __: Set[str]) -> bool:
    return False


class Observed(msgspec.Struct, kw_only=True):
    session: Session
    site: Site
    # What is known of the status from before; without it, it is worked out anew.
    digest: Digest | None = None
    # Clients whose entry in the spec does not say that they are connected; None: unknown.
    absent: Mapping[str, Any] | None = None
    # Pods that may not be as they were when the digest was made; None: all of them.
    changed_pods: Set[str] | None = None
    # What the session is owed; None while the template it names is not there.
    workload: Workload | None
    template: TemplateSeen | None = None
    # Pods that this session owns or holds.
    pods: Mapping[str, PodSeen] = {}
    # Leases that this session holds, by pod.
    claims: Mapping[str, ClaimSeen] = {}
    # Of a revision: pooled pods that are free, the best one first.
    shelf: Shelf = empty_shelf
    # Pods of which a live read said that they are gone.
    gone: frozenset[str] = frozenset()
    # Nodes that do not answer, and since when.
    lost_nodes: Mapping[str, float] = {}
    # How the resets that were started went; absent: none has ended.
    resets: Mapping[str, bool] = {}
    # Ports that this session has claimed, by holder and name of the port.
    port_claims: Mapping[tuple[str, str], PortClaimSeen] = {}
    pick_port: PickPort = no_port
    pick_host_port: PickPort = no_port
    # Whether another pod than those named has taken this port of a node.
    host_port_taken: Callable[[int, Set[str]], bool] = no_matter
    # Addresses of nodes, by name, and the other way round.
    node_addresses: Mapping[str, str] = {}
    nodes_by_address: Mapping[str, str] = {}
    # Services, routes and bound resources of this session, by (kind, name).
    children: Mapping[tuple[str, str], ChildSeen] = {}
    # The sessions of the template that are older than this one, where that is limited.
    older_sessions: int = 0
