"""Where clients sit: as few pods as possible, and what is there before what is not.

A free seat in a pod in use, else an idle pod of the session, else one of the pool that
somebody used before, else a warm one, else a new one.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from edgewise.api.sessions import PodPhase
from edgewise.sessions.digest import WITHOUT_SEATS
from edgewise.sessions.draft import Draft
from edgewise.sessions.observed import ClaimSeen
from edgewise.sessions.orders import ClaimPod, CreatePod
from edgewise.sessions.pods import Made, reuse_of
from edgewise.sessions.steps.failing import resting
from edgewise.sessions.steps.host_ports import spot_for
from edgewise.sessions.steps.refusals import Asking, rank_of
from edgewise.workloads.names import pod_name
from edgewise.workloads.pods_seen import PodSeen


def seat_clients(draft: Draft) -> None:
    wanted = frozenset(made.template.name for made in draft.made)
    known = draft.digest.templates
    # Whoever lacks a seat is not settled, unless a template was added since that was seen to.
    candidates: Iterable[str] = (draft.digest.pending | draft.touched) & draft.clients.keys()
    if known is None or not wanted <= known:
        candidates = draft.clients
    lacking = sorted(
        client
        for client in candidates
        if not wanted <= (record := draft.clients[client]).pods.keys()
        and record.phase not in WITHOUT_SEATS
    )
    draft.digest.templates = wanted
    current = {made.name for made in draft.made} if lacking else set()
    for revision in draft.refusals.keys() - current:
        del draft.refusals[revision]
    if not lacking:
        return
    for made in draft.made:
        groups = _groups(draft, made, lacking)
        if groups:
            _Seating(draft, made).place(groups)


class _Group(msgspec.Struct):
    """Clients that go into one pod."""

    clients: list[str]
    rank: int
    bereaved: bool = False  # they lost their pod just now


def _groups(draft: Draft, made: Made, lacking: Iterable[str]) -> list[_Group]:
    """Those who lost a pod together stay together; everybody else comes alone. The most urgent
    come first, and of these who has waited the longest."""
    name, most = made.template.name, made.template.max_clients
    groups: list[_Group] = []
    placed: set[str] = set()
    for bereaved in draft.bereaved.get(name, ()):
        step = most or len(bereaved)
        for start in range(0, len(bereaved), step):
            clients = bereaved[start : start + step]
            rank = min(rank_of(draft, client) for client in clients)
            groups.append(_Group(clients, rank, bereaved=True))
        placed.update(bereaved)
    groups.sort(key=lambda group: -len(group.clients))
    alone = [
        client
        for client in lacking
        if client not in placed and name not in draft.clients[client].pods
    ]
    alone.sort(key=lambda client: draft.clients[client].since or "~")
    groups += [_Group([client], rank_of(draft, client)) for client in alone]
    groups.sort(key=lambda group: group.rank)
    return groups


class _Seating:
    """Fills pods of one template."""

    def __init__(self, draft: Draft, made: Made) -> None:
        self._draft = draft
        self._made = made
        self._name = made.template.name
        self._most = made.template.max_clients
        self._free = draft.seen.free_pods.of(made.name)
        self._asking = Asking(draft, made.name)
        self._empty = self._empty_pods()
        # [whether it is not ready, free seats, pod]; the fullest ready one comes first.
        self._open: list[list[str | int | bool]] = self._open_pods()

    def place(self, groups: list[_Group]) -> None:
        for group in groups:
            pod = self._with_room(len(group.clients)) or self._another(group)
            if pod is None:
                self._draft.unplaced.add(self._made.name)
                continue
            for client in group.clients:
                self._draft.seat(client, self._name, pod)

    # Pods in use --------------------------------------------------------------------

    def _open_pods(self) -> list[list[str | int | bool]]:
        draft, most = self._draft, self._most
        if most == 1:
            return []
        found: list[list[str | int | bool]] = []
        for pod in self._own_pods():
            load = draft.load.get(pod, 0)
            if load and (most == 0 or load < most):
                seen = draft.usable(pod)
                # One that was ready, and is not, may never be again: nobody new waits for it.
                if seen is not None and (most == 0 or seen.ready or not draft.ip_of.get(pod)):
                    free = most - load if most else 1 << 30
                    found.append([not seen.ready, free, pod])
        found.sort()
        return found[:1] if most == 0 else found

    def _own_pods(self) -> list[str]:
        draft = self._draft
        revisions = {
            name
            for name, revision in draft.revisions.items()
            if revision.pod_template == self._name
        }
        return [pod for pod, revision in draft.revision_of.items() if revision in revisions]

    def _with_room(self, size: int) -> str | None:
        for position, entry in enumerate(self._open):
            _, free, pod = entry
            if isinstance(free, int) and free >= size:
                entry[1] = free - size
                if entry[1] == 0:
                    del self._open[position]
                return str(pod)
        return None

    # Pods without clients -----------------------------------------------------------

    def _empty_pods(self) -> list[str]:
        """Clean pods of this very revision; the best one last."""
        draft = self._draft
        candidates = [
            pod for pod, idle in draft.idle.items() if idle.phase == PodPhase.WAIT_FOR_REUSE
        ]
        candidates += draft.unused
        found = []
        for pod in candidates:
            if draft.revision_of.get(pod) == self._made.name and pod not in draft.load:
                seen = draft.usable(pod)
                # One that its node cannot run is no better than none.
                if seen is not None and not (seen.trouble and seen.node):
                    found.append((seen.ready, pod))
        return [pod for _, pod in sorted(found)]

    def _another(self, group: _Group) -> str | None:
        """Open one more pod, and keep its other seats for whoever comes next."""
        pod = self._idle() or self._pooled() or self._new(group)
        if pod is not None and self._most != 1:
            free = self._most - len(group.clients) if self._most else 1 << 30
            if free:
                self._open.append([True, free, pod])
        return pod

    def _idle(self) -> str | None:
        if not self._empty:
            return None
        pod = self._empty.pop()
        if pod in self._draft.idle:
            self._draft.tally.reuses += 1
        return pod

    def _pooled(self) -> str | None:
        seen, lease = next(self._free, (None, None))
        if seen is None:
            return None
        self._claim(seen, lease)
        return seen.name

    def _claim(self, seen: PodSeen, lease: ClaimSeen | None) -> None:
        draft = self._draft
        ordinal = draft.take_ordinal()
        draft.claim.append(ClaimPod(seen, lease, ordinal))
        draft.claimed[seen.name] = seen
        draft.revisions[self._made.name] = self._made.revision
        draft.add_pod(seen.name, self._made.name, seen.ip if seen.ready else "", ordinal)
        if lease is None:
            draft.tally.warm_hits += 1
        else:
            draft.tally.reuses += 1

    def _new(self, group: _Group) -> str | None:
        draft, made = self._draft, self._made
        if any(resting(draft, client, made) for client in group.clients):
            return None
        if not self._asking.may(group.rank, bereaved=group.bereaved):
            return None
        meta = draft.seen.session.metadata
        ordinal = draft.take_ordinal()
        name = pod_name(meta.name, meta.uid, self._name, ordinal)
        pooled = draft.seen.template is not None and reuse_of(draft.workload) == "Template"
        spot = spot_for(draft, made, name, group.clients[0])
        draft.create.append(CreatePod(name, ordinal, made, pooled, spot, group.rank))
        draft.revisions[made.name] = made.revision
        draft.add_pod(name, made.name, "", ordinal)
        if made.template.warm_pods:
            draft.tally.warm_misses += 1
        return name
