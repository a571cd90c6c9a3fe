"""What all sessions share in memory: derived from the caches, and lost without harm."""

from __future__ import annotations

from edgewise.api.sessions import PortClaim, Session, SessionTemplate
from edgewise.kube.coordination import Lease
from edgewise.kube.core import Node, Pod
from edgewise.kube.objects import Key
from edgewise.runtime.watches import CacheView
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


def by_template(session: Session) -> str | None:
    """Sessions by the template they follow."""
    ref = session.spec.template_ref
    return f"{session.metadata.namespace}/{ref.name}" if ref is not None else None


def by_template_in_use(session: Session) -> str | None:
    """Only those that somebody is in."""
    return by_template(session) if session.spec.clients or session.status.pods else None


def template_key(template: SessionTemplate) -> str:
    return str(template.key)


def key_of(text: str) -> Key:
    namespace, _, name = text.rpartition("/")
    return Key(namespace, name)
