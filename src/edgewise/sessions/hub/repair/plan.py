"""What is missing or too much in the member clusters of one session. Pure.

The hub says how things shall be: the session is wanted, is to go, or is unknown; each of its
clients sits in one cluster. Each member shows how things are. A member that cannot be seen
is left alone until it can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from edgewise.api.global_sessions import (
    HUB_LABEL,
    SESSION_UID_LABEL,
    BindingState,
    ClientBinding,
    GlobalSession,
)
from edgewise.api.sessions import Session

Clients = dict[str, bool | None]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A session in one member cluster."""

    found: Session | None = None
    visible: bool = True  # the cluster answers and its cache is complete
    allowed: bool = True  # the session may use this location


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    hub_id: str  # our hub's id: what does not carry it is not ours to touch
    session: GlobalSession | None
    bindings: Sequence[ClientBinding] = ()
    parts: Mapping[str, Part] = {}


class RepairPlan(msgspec.Struct, frozen=True, kw_only=True):
    open: list[str] = []
    close: dict[str, Session] = {}
    # Cluster to client to: connected, disconnected (False), or gone (None).
    put: dict[str, Clients] = {}
    drop: list[ClientBinding] = []
    release: bool = False  # every cluster has confirmed: the session may go
    # Why it is not done yet, cluster by cluster.
    waiting: dict[str, str] = {}

    @property
    def idle(self) -> bool:
        return not (self.open or self.close or self.put or self.drop or self.release)


def plan_repair(seen: Seen) -> RepairPlan:
    if seen.session is None:
        return _clean_up(seen)
    if seen.session.metadata.deleting:
        return _take_down(seen, seen.session.metadata.uid)
    return _keep_up(seen, seen.session)


def _keep_up(seen: Seen, session: GlobalSession) -> RepairPlan:
    uid = session.metadata.uid
    plan = RepairPlan(
        drop=[binding for binding in seen.bindings if binding.spec.session_uid != uid]
    )
    seats = _seats(seen.bindings, uid)
    for cluster, part in seen.parts.items():
        found, wanted = part.found, seats.get(cluster, {})
        if not part.visible:
            plan.waiting[cluster] = "does not answer"
        elif found is None:
            if part.allowed or wanted:
                plan.open.append(cluster)
        elif not _is_of(found, seen.hub_id, uid):
            _left_behind(plan, cluster, found, seen.hub_id)
        elif found.metadata.deleting:
            plan.waiting[cluster] = "is deleting it, and gets it again"
        elif not part.allowed and not wanted and not found.spec.clients:
            plan.close[cluster] = found
        elif changes := _changes(found, wanted):
            plan.put[cluster] = changes
    return plan


def _take_down(seen: Seen, uid: str) -> RepairPlan:
    plan = RepairPlan(drop=list(seen.bindings))
    for cluster, part in seen.parts.items():
        found = part.found
        if not part.visible:
            plan.waiting[cluster] = "does not answer"
        elif found is not None and _is_of(found, seen.hub_id, uid):
            if not found.metadata.deleting:
                plan.close[cluster] = found
            plan.waiting[cluster] = "still has it"
    if plan.waiting or plan.drop:
        return plan
    return msgspec.structs.replace(plan, release=True)


def _clean_up(seen: Seen) -> RepairPlan:
    plan = RepairPlan(drop=list(seen.bindings))
    for cluster, part in seen.parts.items():
        if part.visible and part.found is not None:
            _left_behind(plan, cluster, part.found, seen.hub_id)
    return plan


def _left_behind(plan: RepairPlan, cluster: str, found: Session, hub_id: str) -> None:
    """A Session that no session of the hub stands behind."""
    if found.metadata.labels.get(HUB_LABEL) != hub_id:
        plan.waiting[cluster] = "has a Session of this name that the hub did not make"
    elif found.spec.clients:
        # Perhaps the hub was set back to an old backup: people are not thrown out for that.
        plan.waiting[cluster] = "has a forgotten Session with clients in it"
    elif not found.metadata.deleting:
        plan.close[cluster] = found


def _is_of(found: Session, hub_id: str, uid: str) -> bool:
    labels = found.metadata.labels
    return labels.get(HUB_LABEL) == hub_id and labels.get(SESSION_UID_LABEL) == uid


def _seats(bindings: Sequence[ClientBinding], uid: str) -> dict[str, dict[str, bool]]:
    seats: dict[str, dict[str, bool]] = {}
    for binding in bindings:
        spec = binding.spec
        if spec.session_uid == uid and spec.location and spec.state is not BindingState.QUEUED:
            connected = spec.state is BindingState.SEATED
            seats.setdefault(spec.location, {})[spec.client] = connected
    return seats


def _changes(found: Session, wanted: Mapping[str, bool]) -> Clients:
    shown = {client: _connected(entry) for client, entry in found.spec.clients.items()}
    changes: Clients = {
        client: connected for client, connected in wanted.items() if shown.get(client) != connected
    }
    changes.update(dict.fromkeys(shown.keys() - wanted.keys()))
    return changes


def _connected(entry: object) -> bool | None:
    """What a client's entry says; None for one that says nothing usable."""
    value = entry.get("connected") if isinstance(entry, dict) else None
    return value if isinstance(value, bool) else None
