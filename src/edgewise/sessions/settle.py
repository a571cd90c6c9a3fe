"""What a plan has come to: the second pure step, once its first orders are carried out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any

import msgspec

from edgewise.api.sessions import ClientStatus, SessionStatus
from edgewise.exposure.port_index import PortClaimSeen
from edgewise.sessions.digest import Digest
from edgewise.sessions.orders import CreatePod, FreePort, Note, Publication, Tally
from edgewise.sessions.plan import Plan
from edgewise.sessions.prospect import Prospect
from edgewise.sessions.status.draft import StatusDraft
from edgewise.sessions.status.patch import write
from edgewise.sessions.steps.refusals import accept, refuse
from edgewise.sessions.steps.waiting import Why, waiting, why_waiting
from edgewise.workloads.wording import shorten, without_name

# When the gateways did not acknowledge a route, it is offered again after so long.
OFFER_AGAIN = 1.0
# What the API server refused may be put right by somebody else meanwhile.
ASK_AGAIN = 30.0

# A client that is not as it was: its record before, and after.
Change = tuple[str, ClientStatus | None, ClientStatus | None]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the first step of carrying out went."""

    acked: Collection[str] = ()  # ids of routes
    rejected: Mapping[str, str] = {}
    complaint: str = ""  # why a gateway said nothing
    refused_pods: Mapping[str, str] = {}  # pods that the API server would not have, and why
    refused_children: Mapping[str, str] = {}
    # Ports that were claimed now, by (holder, name of the port).
    claimed_ports: Mapping[tuple[str, str], PortClaimSeen] = {}


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """The status to write, and what to do and to tell once it is written."""

    patch: dict[str, Any] | None  # a merge patch; None: the status says all of this already
    status: SessionStatus
    digest: Digest
    free_ports: tuple[FreePort, ...]
    unusable_ports: Set[int]  # at which a gateway cannot listen
    changes: tuple[Change, ...]
    notes: tuple[Note, ...]
    tally: Tally
    next_deadline: float | None  # when something happens by itself; None: never


def settle(plan: Plan, outcome: Outcome) -> Settled:
    prospect, given_up = plan.prospect, list[FreePort]()
    if not _as_planned(plan, outcome):
        draft = StatusDraft(prospect)
        _settle_pods(draft, plan.create, outcome.refused_pods)
        for publication in plan.publish:
            given_up += _publish(draft, publication, outcome)
        if outcome.refused_children:
            draft.warn("ResourceRefused", "; ".join(outcome.refused_children.values()))
            _come_back(draft, ASK_AGAIN)
        prospect = draft.sealed()
    writing = write(prospect)
    return Settled(
        patch=writing.patch or None,
        status=writing.status,
        digest=prospect.digest,
        free_ports=(*plan.free_ports, *given_up),
        unusable_ports=frozenset(order.claim.number for order in given_up),
        changes=_changes(prospect),
        notes=prospect.notes,
        tally=prospect.tally,
        next_deadline=min(prospect.deadlines, default=None),
    )


def _as_planned(plan: Plan, outcome: Outcome) -> bool:
    """Whether the status is what the plan expects. It is for nearly every join, which so costs
    no copy of it."""
    if outcome.refused_pods or outcome.refused_children:
        return False
    if plan.create and plan.prospect.refusals:
        return False  # what was refused before was accepted now
    return all(route.id in outcome.acked for each in plan.publish for route in each.routes)


def _changes(prospect: Prospect) -> tuple[Change, ...]:
    old, new = prospect.old.clients, prospect.clients
    return tuple(
        [
            (client, old.get(client), new.get(client))
            for client in prospect.touched
            if old.get(client) != new.get(client)
        ]
    )


def _come_back(draft: StatusDraft, seconds: float) -> None:
    draft.deadlines.append(draft.now + seconds)


# Pods ----------------------------------------------------------------------------------


def _settle_pods(
    draft: StatusDraft, created: tuple[CreatePod, ...], refused: Mapping[str, str]
) -> None:
    """Nobody sits in a pod that the API server refused."""
    words: dict[str, str] = {}
    for order in created:
        if order.name in refused:
            words[order.made.name] = without_name(refused[order.name], order.name)
    for made in {order.made.name: order.made for order in created}.values():
        if made.name in words:
            refuse(draft, made.name, made.template.name, shorten(words[made.name]))
        else:
            accept(draft, made.name)
    if not refused:
        return
    # Whoever was seated by this plan was touched by it.
    for client in [client for client in draft.touched if client in draft.clients]:
        lost = [t for t, pod in draft.clients[client].pods.items() if pod in refused]
        for template in lost:
            draft.unseat(client, template)
        if lost:
            record = draft.clients[client]
            draft.set_client(client, waiting(draft, record, why_waiting(draft, record)))
    for pod in refused:
        draft.drop_pod(pod)


# Routes --------------------------------------------------------------------------------


def _publish(draft: StatusDraft, publication: Publication, outcome: Outcome) -> list[FreePort]:
    """Answers the ports that are given up, because a gateway cannot listen there."""
    client = publication.client
    if all(route.id in outcome.acked for route in publication.routes):
        return []
    draft.set_client(client, publication.unserved)
    _come_back(draft, OFFER_AGAIN)
    refused = [route for route in publication.routes if route.id in outcome.rejected]
    if not refused:
        why = outcome.complaint or "no gateway has acknowledged the routes yet"
        _waits(draft, client, "GatewaySilent", why)
        return []
    why = "; ".join(outcome.rejected[route.id] for route in refused)
    _waits(draft, client, "RouteRefused", why)
    return [
        order
        for route in refused
        if route.listen_port
        for order in _give_up_port(draft, client, route.listen_port, outcome)
    ]


def _waits(draft: StatusDraft, client: str, reason: str, why: str) -> None:
    draft.warn(reason, why)
    draft.set_client(client, waiting(draft, draft.clients[client], Why(reason, why)))


def _give_up_port(draft: StatusDraft, client: str, number: int, outcome: Outcome) -> list[FreePort]:
    """Take another port next time."""
    given_up = []
    for (holder, port), claim in {**draft.seen.port_claims, **outcome.claimed_ports}.items():
        who, _, pod_template = holder.rpartition("/")
        if who != client or claim.number != number:
            continue
        given_up.append(FreePort(claim))
        record = draft.clients[client]
        left = {k: v for k, v in record.endpoints.get(pod_template, {}).items() if k != port}
        endpoints = {**record.endpoints, pod_template: left}
        draft.set_client(client, msgspec.structs.replace(record, endpoints=endpoints))
    return given_up
