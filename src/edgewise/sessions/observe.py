"""Gathers what a plan needs, from caches and indexes alone."""

from __future__ import annotations

from collections.abc import Iterator, Set

import msgspec

from edgewise.api.sessions import PodPhase, Session, SessionTemplate, Workload
from edgewise.kube.objects import Object, ObjectMeta
from edgewise.runtime.watches import CacheView
from edgewise.sessions import names
from edgewise.sessions.indexes.decoded_sessions import DecodedSession
from edgewise.sessions.indexes.indexes import Indexes, by_template
from edgewise.sessions.observed import NO_PODS, FreePods, Observed, Offer, TemplateSeen
from edgewise.sessions.raw_session import RawSession
from edgewise.sessions.resetting import Resets
from edgewise.sessions.steps.idling import reset_attempt
from edgewise.workloads.children import Child, ChildSeen, see_child
from edgewise.workloads.pods_seen import PodSeen


def template_of(session: Session, cache: CacheView) -> SessionTemplate | None:
    ref = session.spec.template_ref
    if ref is None:
        return None
    return cache[SessionTemplate].find(ref.name, session.metadata.namespace)


def observe(
    session: Session,
    cache: CacheView,
    indexes: Indexes,
    *,
    resets: Resets | None = None,
    kinds: tuple[type[Child], ...] = (),
    gone: frozenset[str] = frozenset(),
    page: DecodedSession | None = None,
) -> Observed:
    meta = session.metadata
    template = template_of(session, cache)
    workload: Workload | None = session.spec
    if session.spec.template_ref is not None:
        workload = template.spec if template is not None else None
    pods, nodes = indexes.pods.pods_of(meta.namespace, meta.uid), indexes.nodes.seen()
    return Observed(
        session=session,
        digest=page.digest if page is not None else None,
        absent=page.absent if page is not None else None,
        changed_pods=indexes.pods.changed_of(meta.namespace, meta.uid),
        site=indexes.site,
        workload=workload,
        template=_seen(template),
        pods=pods,
        claims=indexes.pods.claims_of(meta.namespace, meta.uid),
        free_pods=_free_pods(indexes, template),
        gone=gone,
        room_at=indexes.room.appeared(meta.namespace),
        lost_nodes=nodes.lost,
        resets=_results(session, pods, resets),
        port_claims=indexes.ports.claims_of(meta.uid),
        free_ports=indexes.ports,
        host_ports=PortsOfNodes(indexes, meta.namespace),
        node_addresses=nodes.addresses,
        nodes_by_address=nodes.by_address,
        children=children_of(names.SESSION_UID, meta, cache, kinds),
        older_sessions=_older(session, workload, cache),
    )


def _seen(template: SessionTemplate | None) -> TemplateSeen | None:
    if template is None:
        return None
    meta = template.metadata
    return TemplateSeen(name=meta.name, uid=meta.uid, deleting=meta.deleting)


def _free_pods(indexes: Indexes, template: SessionTemplate | None) -> FreePods:
    if template is None or template.metadata.deleting:
        return NO_PODS
    return _PodsOfTemplate(indexes, template.metadata.namespace, template.metadata.uid)


class _PodsOfTemplate(msgspec.Struct, frozen=True):
    """A view of the index: FreePods."""

    indexes: Indexes
    namespace: str
    uid: str

    def of(self, revision: str) -> Iterator[Offer]:
        return self.indexes.pods.free(self.namespace, self.uid, revision)


class PortsOfNodes(msgspec.Struct, frozen=True):
    """A view of the indexes: HostPorts."""

    indexes: Indexes
    namespace: str

    def pick(self, _: str, seed: str, also_taken: Set[int]) -> int | None:
        return self.indexes.ports.probe(seed, self.indexes.host_ports.taken, also_taken)

    def taken(self, number: int, but_by: Set[str]) -> bool:
        return self.indexes.host_ports.taken_by_others(self.namespace, number, but_by)


def _results(session: Session, pods: dict[str, PodSeen], resets: Resets | None) -> dict[str, bool]:
    if resets is None:
        return {}
    found = {}
    for name, idle in session.status.idle.items():
        pod = pods.get(name) if idle.phase == PodPhase.RESETTING else None
        attempt = reset_attempt(session.metadata.uid, idle)
        result = resets.result(pod.uid, attempt) if pod is not None else None
        if result is not None:
            found[name] = result
    return found


def by_session_uid(obj: Object) -> str | None:
    return obj.metadata.labels.get(names.SESSION_UID)


def by_template_uid(obj: Object) -> str | None:
    return obj.metadata.labels.get(names.TEMPLATE_UID)


def children_of(
    label: str, owner: ObjectMeta, cache: CacheView, kinds: tuple[type[Child], ...]
) -> dict[tuple[str, str], ChildSeen]:
    """In the owner's namespace: anybody may write its uid on an object of another one."""
    index = by_session_uid if label == names.SESSION_UID else by_template_uid
    found: dict[tuple[str, str], ChildSeen] = {}
    for kind in kinds:
        for child in cache[kind].by(index, owner.uid):
            meta = child.metadata
            if meta.namespace == owner.namespace and not meta.deleting:
                found[kind.KIND.kind, meta.name] = see_child(child)
    return found


def _older(session: Session, workload: Workload | None, cache: CacheView) -> int:
    """How many sessions of the template came before this one, where that is limited."""
    if workload is None or not workload.max_sessions:
        return 0
    ref = session.spec.template_ref
    template = f"{session.metadata.namespace}/{ref.name}" if ref is not None else ""
    siblings = cache[RawSession].by(by_template, template)
    return sum(1 for each in siblings if _age(each) < _age(session))


def _age(session: Object) -> tuple[str, str]:
    return session.metadata.creation_timestamp or "", session.metadata.name
