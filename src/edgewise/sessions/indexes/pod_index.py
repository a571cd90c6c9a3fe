"""Which pods a session has, and which wait in a pool: kept up to date change by change.

A pod that belongs to a session alone is the session's from birth to death. A pooled pod
belongs to a template and is lent: its Lease says to whom. Without a Lease it is still with
the session it was made for, or, if it was made for none, it is warm and free.

Two caches feed this index, and a join reads from it without looking at anybody else's pods.

Owners are known by namespace and uid: whoever may make a pod in one namespace can write the uid
of a session of another on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import msgspec

from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache
from edgewise.sessions import names
from edgewise.sessions.observed import ClaimSeen
from edgewise.workloads.deadlines import moment
from edgewise.workloads.host_ports import HostPortIndex
from edgewise.workloads.pods_seen import PodSeen, see_pod

# Holders of a Lease that are no sessions.
RETIRED = "retired"  # the pod is on its way out, and nobody may have it
CLEANING = "cleaning"  # the pool resets the pod, because its session is gone


class Entry(msgspec.Struct, frozen=True):
    """A pod, its Lease, and whose it is."""

    pod: PodSeen | None = None
    lease: ClaimSeen | None = None
    born_for: str = ""  # uid of a session
    born_key: str = ""  # its name
    template_uid: str = ""

    @property
    def holder(self) -> str:
        """A session's uid, RETIRED, CLEANING, or nothing."""
        return self.lease.holder if self.lease is not None else self.born_for


_Owner = tuple[str, str]  # namespace, uid of a session or a template
_Place = tuple[str, str, str]  # namespace, uid of the template, revision


class PodIndex:
    def __init__(self, host_ports: HostPortIndex | None = None) -> None:
        self._host_ports = host_ports or HostPortIndex()
        self._entries: dict[Key, Entry] = {}
        self._of_session: dict[_Owner, dict[str, PodSeen]] = defaultdict(dict)
        self._claims: dict[_Owner, dict[str, ClaimSeen]] = defaultdict(dict)
        self._of_template: dict[_Owner, dict[str, Entry]] = defaultdict(dict)
        # Pods that changed since the last plan of their session was carried out, for those
        # sessions that were asked about: whoever else holds a pod makes no plans.
        self._changed: dict[_Owner, set[str]] = {}
        # Free pods of a place: used before, warm and ready, still starting.
        self._free: dict[_Place, tuple[dict[str, Entry], ...]] = {}
        self._reserved: set[tuple[str, str]] = set()
        self._following: list[Cache[Any]] = []
        self._unsubscribe: list[Callable[[], None]] = []

    def follow(self, pods: Cache[Pod], leases: Cache[Lease]) -> None:
        """Begin to listen; more than one controller may ask for it."""
        if any(cache is pods for cache in self._following):
            return
        self._following += [pods, leases]
        self._unsubscribe += [leases.subscribe(self._lease_changed)]
        self._unsubscribe += [pods.subscribe(self._pod_changed)]

    # Reading ------------------------------------------------------------------------

    def pods_of(self, namespace: str, session_uid: str) -> dict[str, PodSeen]:
        return dict(self._of_session.get((namespace, session_uid), {}))

    def changed_of(self, namespace: str, session_uid: str) -> frozenset[str]:
        """Who asks for the first time must look at all pods: changes are noted from now on."""
        return frozenset(self._changed.setdefault((namespace, session_uid), set()))

    def planned(
        self, namespace: str, session_uid: str, changed: Set[str], pods: Mapping[str, PodSeen]
    ) -> None:
        """A plan that knew these pods was carried out: only what came later is news."""
        owner = (namespace, session_uid)
        news = self._changed.get(owner)
        if news is None:
            return
        current = self._of_session.get(owner, {})
        news -= {pod for pod in changed if current.get(pod) is pods.get(pod)}

    def forget(self, namespace: str, session_uid: str) -> None:
        """The session is gone: what becomes of its pods is no news to anybody."""
        self._changed.pop((namespace, session_uid), None)

    def claims_of(self, namespace: str, session_uid: str) -> dict[str, ClaimSeen]:
        return dict(self._claims.get((namespace, session_uid), {}))

    def pool_of(self, namespace: str, template_uid: str) -> dict[str, Entry]:
        return dict(self._of_template.get((namespace, template_uid), {}))

    def lease_of(self, key: Key) -> ClaimSeen | None:
        entry = self._entries.get(key)
        return entry.lease if entry is not None else None

    def free(
        self, namespace: str, template_uid: str, revision: str
    ) -> Iterator[tuple[PodSeen, ClaimSeen | None]]:
        """Pods that a session may claim, the best one first, none that is being claimed."""
        for shelf in self._free.get((namespace, template_uid, revision), ()):
            for entry in shelf.values():
                if entry.pod and (namespace, entry.pod.name) not in self._reserved:
                    yield entry.pod, entry.lease

    def reserve(self, namespace: str, pods: list[str]) -> Callable[[], None]:
        """Keep pods from being offered while they are claimed; returns how to end that."""
        keys = {(namespace, pod) for pod in pods}
        self._reserved |= keys
        return lambda: self._reserved.difference_update(keys)

    # Changes ------------------------------------------------------------------------

    def _pod_changed(self, old: Pod | None, new: Pod | None, _: bool) -> None:
        pod = new or old
        if pod is None:
            return
        key = pod.key
        entry = self._take_out(key)
        if new is None:
            entry = msgspec.structs.replace(entry, pod=None)
            self._host_ports.note(key, ())
        else:
            labels = new.metadata.labels
            seen = see(new)
            entry = msgspec.structs.replace(
                entry,
                pod=seen,
                born_for=labels.get(names.SESSION_UID, ""),
                born_key=labels.get(names.SESSION, ""),
                template_uid=labels.get(names.TEMPLATE_UID, ""),
            )
            self._host_ports.note(key, seen.host_ports.values())
        self._put_back(key, entry)

    def _lease_changed(self, old: Lease | None, new: Lease | None, _: bool) -> None:
        lease = new or old
        if lease is None:
            return
        entry = self._take_out(lease.key)
        uid = entry.template_uid
        if new is not None and not uid:
            uid = new.metadata.labels.get(names.TEMPLATE_UID, "")
        held = read_lease(new) if new is not None else None
        entry = msgspec.structs.replace(entry, lease=held, template_uid=uid)
        self._put_back(lease.key, entry)

    def _take_out(self, key: Key) -> Entry:
        entry = self._entries.pop(key, None)
        if entry is None:
            return Entry()
        name, holder = key.name, (key.namespace, entry.holder)
        if entry.pod is not None:
            self._note(holder, name)
        _discard(self._of_session, holder, name)
        _discard(self._claims, holder, name)
        _discard(self._of_template, (key.namespace, entry.template_uid), name)
        if entry.pod is not None:
            self._take_off(self._place(key, entry, entry.pod), name)
        return entry

    def _take_off(self, place: _Place, name: str) -> None:
        shelves = self._free.get(place, ())
        for shelf in shelves:
            shelf.pop(name, None)
        if not any(shelves):
            self._free.pop(place, None)

    def _note(self, owner: _Owner, pod: str) -> None:
        news = self._changed.get(owner)
        if news is not None:
            news.add(pod)

    def _put_back(self, key: Key, entry: Entry) -> None:
        pod, lease = entry.pod, entry.lease
        if pod is None and lease is None:
            return
        self._entries[key] = entry
        name, holder = key.name, (key.namespace, entry.holder)
        if entry.template_uid:
            self._of_template[key.namespace, entry.template_uid][name] = entry
        if lease is not None and entry.holder:
            self._claims[holder][name] = lease
        if pod is None:
            return
        if entry.holder:
            if lease is not None and lease.ordinal != pod.ordinal:
                pod = msgspec.structs.replace(pod, ordinal=lease.ordinal)
            self._of_session[holder][name] = pod
            self._note(holder, name)
        elif entry.template_uid and not (pod.deleting or pod.ended or pod.crashing):
            place = self._place(key, entry, pod)
            shelves = self._free.setdefault(place, ({}, {}, {}))
            shelves[2 if not pod.ready else 1 if lease is None else 0][name] = entry

    def _place(self, key: Key, entry: Entry, pod: PodSeen) -> _Place:
        return (key.namespace, entry.template_uid, pod.revision)


def _discard(index: dict[_Owner, dict[str, Any]], owner: _Owner, name: str) -> None:
    members = index.get(owner)
    if members is not None:
        members.pop(name, None)
        if not members:
            del index[owner]


def see(pod: Pod) -> PodSeen:
    """What matters of a pod of sessions."""
    meta = pod.metadata
    return see_pod(
        pod,
        revision=meta.labels.get(names.REVISION, ""),
        ordinal=meta.annotations.get(names.ORDINAL, ""),
        pooled=names.TEMPLATE_UID in meta.labels,
    )


def read_lease(lease: Lease) -> ClaimSeen:
    meta, spec = lease.metadata, lease.spec
    ordinal = meta.annotations.get(names.ORDINAL, "")
    restarts = meta.annotations.get(names.RESTARTS, "")
    released = moment(spec.renew_time)
    seconds = spec.lease_duration_seconds
    return ClaimSeen(
        pod=meta.name,
        pod_uid=meta.annotations.get(names.POD_UID, ""),
        uid=meta.uid,
        version=meta.resource_version,
        holder=spec.holder_identity or "",
        holder_key=meta.labels.get(names.SESSION, ""),
        ordinal=int(ordinal) if ordinal.isdecimal() else -1,
        restarts=int(restarts) if restarts.isdecimal() else 0,
        until=released + seconds if released is not None and seconds is not None else None,
    )
