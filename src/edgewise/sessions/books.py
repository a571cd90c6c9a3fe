"""What all sessions share in memory: derived from the caches, and lost without harm."""

from __future__ import annotations

from edgewise.api.sessions import PortClaim
from edgewise.kube.coordination import Lease
from edgewise.kube.core import Node, Pod
from edgewise.kube.objects import Key
from edgewise.runtime.watches import CacheView
from edgewise.sessions.held import HeldSession
from edgewise.sessions.nodes import NodeBook
from edgewise.sessions.podbook import PodBook
from edgewise.sessions.portbook import PortBook
from edgewise.sessions.site import Site


class Books:
    def __init__(self, site: Site) -> None:
        self.site = site
        self.pods = PodBook()
        self.ports = PortBook(site.ports)
        self.nodes = NodeBook()

    def follow(self, cache: CacheView) -> None:
        self.pods.follow(cache[Pod], cache[Lease])
        self.ports.follow(cache[PortClaim])
        self.nodes.follow(cache[Node])


# Indexes of the caches ------------------------------------------------------------------


def by_template(session: HeldSession) -> str | None:
    """Sessions by the template they follow."""
    return f"{session.metadata.namespace}/{session.template}" if session.template else None


def by_template_in_use(session: HeldSession) -> str | None:
    """Only those that somebody is in."""
    return by_template(session) if session.in_use else None


def key_of(text: str) -> Key:
    namespace, _, name = text.rpartition("/")
    return Key(namespace, name)
