"""What should happen to a session next. Pure: everything it knows is in `Observed`.

A plan is carried out in this order, and may be cut off after any write:

1. pods are created and claimed, ports claimed, objects applied, routes published;
2. the status is written, if nobody has changed the session meanwhile;
3. what the new status no longer names is removed, released or reset.

What step 1 leaves behind without step 2 is found by the next plan: it carries a number that
no status has counted yet, so it was never used. What step 2 leaves behind without step 3
carries a number that was counted but is recorded no more, so it may go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from edgewise.api.sessions import ClientStatus, SessionStatus
from edgewise.runtime.merge_patch import difference
from edgewise.sessions.addressing import address_clients
from edgewise.sessions.children import tend_children
from edgewise.sessions.digest import Digest
from edgewise.sessions.draft import Draft
from edgewise.sessions.health import bury, notice_pods, rest
from edgewise.sessions.idling import settle_idle
from edgewise.sessions.observed import ClaimSeen, Observed, PortClaimSeen
from edgewise.sessions.orders import FreePort, Publication
from edgewise.sessions.presence import notice_presence
from edgewise.sessions.seating import seat_clients
from edgewise.sessions.verdict import conditions, counts

# When the gateways did not acknowledge a route, it is offered again after so long.
OFFER_AGAIN = 1.0
# What the API server refused may be put right by somebody else meanwhile.
ASK_AGAIN = 30.0


class Outcome(msgspec.Struct, kw_only=True):
    """How the first step went."""

    acked: Collection[str] = ()  # ids of routes
    rejected: Mapping[str, str] = {}
    complaint: str = ""  # why a gateway said nothing
    refused_pods: Mapping[str, str] = {}  # pods that the API server would not have, and why
    refused_children: Mapping[str, str] = {}
    # Ports that were claimed now, by (holder, name of the port).
    claimed_ports: Mapping[tuple[str, str], PortClaimSeen] = {}
    # Ports at which a gateway cannot listen; filled in by the settling.
    unusable_ports: set[int] = msgspec.field(default_factory=set)


def plan(seen: Observed, now: float) -> Plan:
    draft = Draft(seen, now)
    if seen.workload is None:
        name = seen.session.spec.template_ref.name if seen.session.spec.template_ref else ""
        draft.warn("TemplateNotFound", f"SessionTemplate {name} is not there")
    notice_presence(draft)
    notice_pods(draft)
    bury(draft)
    seat_clients(draft)
    settle_idle(draft)
    address_clients(draft)
    tend_children(draft)
    return Plan(draft)


class Plan:
    """The orders, and the status that holds once they were carried out."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.confirm = draft.confirm
        self.create = draft.create
        self.claim = draft.claim
        self.claim_ports = draft.claim_ports
        self.apply = draft.apply
        self.publish = draft.publish
        self.remove = draft.remove
        self.release = draft.release
        self.free_ports = draft.free_ports
        self.remove_children = draft.remove_children
        self.reset = draft.reset
        self.notes = draft.notes
        self.tally = draft.tally
        self.drop_claims = self._claims_of_nothing()
        self.retry_at: float | None = None
        # What holds once it is settled, and written.
        self.status: SessionStatus = draft.old
        self.digest: Digest = draft.digest

    @property
    def next_deadline(self) -> float | None:
        """When something happens by itself; None: never."""
        moments = list(self._draft.deadlines)
        if self.retry_at is not None:
            moments.append(self.retry_at)
        return min(moments, default=None)

    def _claims_of_nothing(self) -> list[ClaimSeen]:
        """Leases of ours whose pod is gone."""
        draft, found = self._draft, []
        for pod, claim in draft.seen.claims.items():
            if pod in draft.seen.pods:
                continue
            if pod in draft.seen.gone:
                found.append(claim)
                draft.needs_fence = True
            elif pod not in draft.confirm:
                draft.confirm.append(pod)
        return found

    @property
    def changes(self) -> Iterator[tuple[str, ClientStatus | None, ClientStatus | None]]:
        """Clients that are not as they were: before, and after (once it is settled)."""
        draft = self._draft
        for client in draft.touched:
            before, after = draft.old.clients.get(client), draft.clients.get(client)
            if before != after:
                yield client, before, after

    def settle(self, outcome: Outcome) -> dict[str, Any] | None:
        """The merge patch for the status; None if it says all of this already."""
        draft = self._draft
        for pod, why in outcome.refused_pods.items():
            self._without_pod(pod, why)
        for publication in draft.publish:
            self._publish(publication, outcome)
        if outcome.refused_children:
            draft.warn("ResourceRefused", "; ".join(outcome.refused_children.values()))
            self._come_back(ASK_AGAIN)
        writing = _write(draft)
        self.status, self.digest = writing.status, draft.digest
        return writing.patch or None

    def _without_pod(self, pod: str, why: str) -> None:
        """The API server refused a pod: nobody sits there, and the next one waits."""
        draft = self._draft
        template = draft.template_of(pod)
        for client, record in list(draft.clients.items()):
            if record.pods.get(template) == pod:
                draft.unseat(client, template)
        draft.drop_pod(pod)
        rest(draft, template, f"was refused: {why}")
        until = draft.failures[template].until
        draft.warn("PodsRefused", f"pods of {template} are refused until {until}: {why}")
        self._come_back(OFFER_AGAIN)

    def _come_back(self, seconds: float) -> None:
        moment = self._draft.now + seconds
        self.retry_at = moment if self.retry_at is None else min(self.retry_at, moment)

    def _publish(self, publication: Publication, outcome: Outcome) -> None:
        draft = self._draft
        ids = [route.id for route in publication.routes]
        client = publication.client
        if all(id in outcome.acked for id in ids):
            if client in draft.clients:
                draft.set_client(client, publication.ready)
            return
        self._come_back(OFFER_AGAIN)
        refused = [route for route in publication.routes if route.id in outcome.rejected]
        if not refused:
            why = outcome.complaint or "no gateway has acknowledged the routes yet"
            draft.warn("GatewaySilent", why)
            return
        draft.warn("RouteRefused", "; ".join(outcome.rejected[route.id] for route in refused)[:500])
        for route in refused:
            self._give_up_port(client, route.listen_port, outcome)

    def _give_up_port(self, client: str, number: int, outcome: Outcome) -> None:
        """A gateway cannot listen there: take another port next time."""
        if not number:
            return
        draft = self._draft
        for (holder, port), claim in {**draft.seen.port_claims, **outcome.claimed_ports}.items():
            who, _, pod_template = holder.rpartition("/")
            if who != client or claim.number != number:
                continue
            self.free_ports.append(FreePort(claim))
            outcome.unusable_ports.add(number)
            record = draft.clients[client]
            left = {k: v for k, v in record.endpoints.get(pod_template, {}).items() if k != port}
            endpoints = {**record.endpoints, pod_template: left}
            draft.set_client(client, msgspec.structs.replace(record, endpoints=endpoints))


class _Writing(msgspec.Struct):
    """The new status, and how it differs from the old one."""

    status: SessionStatus
    patch: dict[str, Any]


def _write(draft: Draft) -> _Writing:
    old, generation = draft.old, draft.seen.session.metadata.generation
    patch: dict[str, Any] = {}
    _set(patch, "clients", _records(old.clients, draft.clients, draft.touched))
    pods, changes = _pods(draft)
    _set(patch, "pods", changes)
    _set(patch, "idle", _records(old.idle, draft.idle, old.idle.keys() | draft.idle.keys()))
    revisions = {name: each for name, each in draft.revisions.items() if name in pods}
    names = old.revisions.keys() | revisions.keys()
    _set(patch, "revisions", _records(old.revisions, revisions, names))
    names = old.failures.keys() | draft.failures.keys()
    _set(patch, "failures", _records(old.failures, draft.failures, names))
    if draft.needs_fence and draft.next == old.next and not patch:
        # Nothing else changes, but what follows needs a proof that nobody was ahead of us.
        draft.next += 1
    status = SessionStatus(
        observed_generation=generation,
        next=draft.next,
        clients=draft.clients,
        pods=pods,
        idle=draft.idle,
        revisions=revisions,
        failures=draft.failures,
        recoveries=draft.recoveries,
        counts=counts(draft),
        conditions=conditions(draft),
    )
    for field, name in _SMALL.items():
        if getattr(status, field) != getattr(old, field):
            patch[name] = msgspec.to_builtins(getattr(status, field))
    return _Writing(status, patch)


_SMALL = {
    "next": "next",
    "recoveries": "recoveries",
    "conditions": "conditions",
    "counts": "counts",
    "observed_generation": "observedGeneration",
}


def _set(status: dict[str, Any], name: str, changes: dict[str, Any]) -> None:
    if changes:
        status[name] = changes


def _records(
    before: Mapping[str, msgspec.Struct],
    after: Mapping[str, msgspec.Struct],
    names: Iterable[str],
) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name in names:
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if new is None:
            changes[name] = None
        elif old is None:
            changes[name] = msgspec.to_builtins(new)
        else:
            changes[name] = difference(msgspec.to_builtins(old), msgspec.to_builtins(new))
    return changes


def _pods(draft: Draft) -> tuple[dict[str, dict[str, str]], dict[str, Any]]:
    """The pods by revision, and how that differs from before."""
    new, changes = dict(draft.old.pods), dict[str, Any]()
    for pod in draft.touched_pods:
        before, after = draft.old_revision_of.get(pod), draft.revision_of.get(pod)
        if before == after and draft.old_ip_of.get(pod) == draft.ip_of.get(pod):
            continue
        for revision in (before, after):
            if revision is not None and revision not in changes:
                new[revision] = dict(new.get(revision, {}))
                changes[revision] = {}
        if before is not None and before != after:
            new[before].pop(pod, None)
            changes[before][pod] = None
        if after is not None:
            new[after][pod] = changes[after][pod] = draft.ip_of[pod]
    for revision in [name for name, members in new.items() if not members]:
        del new[revision]
        changes[revision] = None
    return new, {
        name: each for name, each in changes.items() if each is not None or name in draft.old.pods
    }
