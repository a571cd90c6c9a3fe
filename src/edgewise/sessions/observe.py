"""Gathers what a plan needs, from caches and books alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from edgewise.api.sessions import Session, SessionTemplate, Workload
from edgewise.kube.objects import Object, ObjectMeta
from edgewise.runtime.watches import CacheView
from edgewise.sessions import names
from edgewise.sessions.books import Books, by_template
from edgewise.sessions.child_kinds import Child, see_child
from edgewise.sessions.held import HeldSession
from edgewise.sessions.idling import RESETTING, reset_attempt
from edgewise.sessions.observed import ChildSeen, ClaimSeen, Observed, PodSeen, TemplateSeen
from edgewise.sessions.pages import Page
from edgewise.sessions.resetting import Resets


def template_of(session: Session, cache: CacheView) -> SessionTemplate | None:
    ref = session.spec.template_ref
    if ref is None:
        return None
    return cache[SessionTemplate].find(ref.name, session.metadata.namespace)


def observe(
    session: Session,
    cache: CacheView,
    books: Books,
    *,
    resets: Resets | None = None,
    kinds: tuple[type[Child], ...] = (),
    gone: frozenset[str] = frozenset(),
    page: Page | None = None,
) -> Observed:
    meta = session.metadata
    template = template_of(session, cache)
    workload: Workload | None = session.spec
    if session.spec.template_ref is not None:
        workload = template.spec if template is not None else None
    pods = books.pods.pods_of(meta.namespace, meta.uid)
    return Observed(
        session=session,
        digest=page.digest if page is not None else None,
        absent=page.absent if page is not None else None,
        changed_pods=books.pods.changed_of(meta.namespace, meta.uid),
        site=books.site,
        workload=workload,
        template=_seen(template),
        pods=pods,
        claims=books.pods.claims_of(meta.namespace, meta.uid),
        shelf=partial(_shelf, books, template),
        gone=gone,
        lost_nodes=dict(books.nodes.lost),
        resets=_results(session, pods, resets),
        port_claims=books.ports.claims_of(meta.uid),
        pick_port=books.ports.pick,
        pick_host_port=partial(_pick_host_port, books),
        host_port_taken=partial(books.pods.host_port_taken, meta.namespace),
        node_addresses=books.nodes.addresses,
        nodes_by_address=books.nodes.by_address,
        children=children_of(names.SESSION_UID, meta, cache, kinds),
        older_sessions=_older(session, workload, cache),
    )


def _seen(template: SessionTemplate | None) -> TemplateSeen | None:
    if template is None:
        return None
    meta = template.metadata
    return TemplateSeen(name=meta.name, uid=meta.uid, deleting=meta.deleting)


def _shelf(
    books: Books, template: SessionTemplate | None, revision: str
) -> Iterator[tuple[PodSeen, ClaimSeen | None]]:
    if template is None or template.metadata.deleting:
        return iter(())
    meta = template.metadata
    return books.pods.free(meta.namespace, meta.uid, revision)


def _pick_host_port(books: Books, _: str, seed: str, also_taken: frozenset[int]) -> int | None:
    return books.ports.probe(seed, books.pods.host_ports, also_taken)


def _results(session: Session, pods: dict[str, PodSeen], resets: Resets | None) -> dict[str, bool]:
    if resets is None:
        return {}
    found = {}
    for name, idle in session.status.idle.items():
        pod = pods.get(name) if idle.phase == RESETTING else None
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
    siblings = cache[HeldSession].by(by_template, template)
    return sum(1 for each in siblings if _age(each) < _age(session))


def _age(session: Object) -> tuple[str, str]:
    return session.metadata.creation_timestamp or "", session.metadata.name
