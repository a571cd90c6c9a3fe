"""What a plan may know. Everything in here is a value or a view of one moment: a plan reads
nothing else, and changes none of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, Protocol

import msgspec

from edgewise.api.sessions import Session, Workload
from edgewise.exposure.port_index import PortClaimSeen
from edgewise.exposure.site import Site
from edgewise.sessions.digest import Digest
from edgewise.workloads.children import ChildSeen
from edgewise.workloads.pods_seen import PodSeen


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


class TemplateSeen(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str
    deleting: bool = False


Offer = tuple[PodSeen, ClaimSeen | None]  # a free pod, with its Lease, if it has one


# Views: questions that a plan may ask of what would be too much to copy for every plan. They
# are asked before anything is awaited, so all answers of one plan are of one moment.


class FreePods(Protocol):
    """Pods of a template that no session has."""

    def of(self, revision: str) -> Iterator[Offer]:
        """The best one first."""


class FreePorts(Protocol):
    """Public ports that seem free."""

    def pick(self, protocol: str, seed: str, also_taken: Set[int], /) -> int | None:
        """`seed` says where to begin, `also_taken` what else is taken; None: all are."""


class HostPorts(FreePorts, Protocol):
    """Ports of nodes."""

    def taken(self, number: int, but_by: Set[str]) -> bool:
        """Whether another pod than those named has taken this one."""


class PodsOnShelf(msgspec.Struct, frozen=True):
    """Free pods by revision."""

    pods: Mapping[str, tuple[Offer, ...]] = {}

    def of(self, revision: str) -> Iterator[Offer]:
        return iter(self.pods.get(revision, ()))


class ListedPorts(msgspec.Struct, frozen=True):
    """Ports that are free, and pods that have others."""

    free: tuple[int, ...] = ()
    holders: Mapping[int, str] = {}

    def pick(self, _: str, __: str, also_taken: Set[int]) -> int | None:
        return next((number for number in self.free if number not in also_taken), None)

    def taken(self, number: int, but_by: Set[str]) -> bool:
        return number in self.holders and self.holders[number] not in but_by


NO_PODS = PodsOnShelf()
NO_PORTS = ListedPorts()


class Observed(msgspec.Struct, frozen=True, kw_only=True):
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
    free_pods: FreePods = NO_PODS
    # Pods of which a live read said that they are gone.
    gone: frozenset[str] = frozenset()
    # When there last was more room for pods in the namespace, as far as anybody has noticed.
    room_at: float = 0.0
    # Nodes that do not answer, and since when.
    lost_nodes: Mapping[str, float] = {}
    # How the resets that were started went; absent: none has ended.
    resets: Mapping[str, bool] = {}
    # Ports that this session has claimed, by holder and name of the port.
    port_claims: Mapping[tuple[str, str], PortClaimSeen] = {}
    free_ports: FreePorts = NO_PORTS
    host_ports: HostPorts = NO_PORTS
    # Addresses of nodes, by name, and the other way round.
    node_addresses: Mapping[str, str] = {}
    nodes_by_address: Mapping[str, str] = {}
    # Services, routes and bound resources of this session, by (kind, name).
    children: Mapping[tuple[str, str], ChildSeen] = {}
    # The sessions of the template that are older than this one, where that is limited.
    older_sessions: int = 0
