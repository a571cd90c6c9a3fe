"""What all sessions share in memory: derived from the caches, and lost without harm."""

from __future__ import annotations

from edgewise.api.exposure import PortClaim
from edgewise.exposure.port_index import PortIndex
from edgewise.exposure.site import Site
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Node, Pod
from edgewise.kube.objects import Key
from edgewise.runtime.watches import CacheView
from edgewise.sessions.indexes.pod_index import PodIndex
from edgewise.sessions.indexes.room_index import RoomIndex
from edgewise.sessions.raw_session import RawSession
from edgewise.workloads.host_ports import HostPortIndex
from edgewise.workloads.node_loss import NodeIndex


class Indexes:
    def __init__(self, site: Site) -> None:
        self.site = site
        self.host_ports = HostPortIndex()
        self.pods = PodIndex(self.host_ports)
        self.ports = PortIndex(site.ports)
        self.nodes = NodeIndex()
        self.room = RoomIndex()

    def follow(self, cache: CacheView) -> None:
        self.pods.follow(cache[Pod], cache[Lease])
        self.ports.follow(cache[PortClaim])
        self.nodes.follow(cache[Node])


# Indexes of the caches ------------------------------------------------------------------


def by_template(session: RawSession) -> str | None:
    """Sessions by the template they follow."""
    return f"{session.metadata.namespace}/{session.template}" if session.template else None


def by_template_in_use(session: RawSession) -> str | None:
    """Only those that somebody is in."""
    return by_template(session) if session.in_use else None


def key_of(text: str) -> Key:
    namespace, _, name = text.rpartition("/")
    return Key(namespace, name)
