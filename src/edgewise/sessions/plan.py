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

import msgspec

from edgewise.sessions.draft import Draft
from edgewise.sessions.observed import ClaimSeen, Observed
from edgewise.sessions.orders import (
    ApplyChild,
    ClaimPod,
    ClaimPort,
    CreatePod,
    FreePort,
    Publication,
    ReleasePod,
    RemoveChild,
    RemovePod,
    ResetPod,
)
from edgewise.sessions.prospect import Prospect, prospect_of
from edgewise.sessions.steps.addressing import address_clients
from edgewise.sessions.steps.children import tend_children
from edgewise.sessions.steps.health import bury, notice_pods
from edgewise.sessions.steps.idling import settle_idle
from edgewise.sessions.steps.presence import notice_presence
from edgewise.sessions.steps.seating import seat_clients


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The orders, and the status that they lead to, unless the outcome is another one."""

    confirm: tuple[str, ...]  # pods to be asked for before anything is done
    create: tuple[CreatePod, ...]
    claim: tuple[ClaimPod, ...]
    claim_ports: tuple[ClaimPort, ...]
    apply: tuple[ApplyChild, ...]
    publish: tuple[Publication, ...]
    remove: tuple[RemovePod, ...]
    release: tuple[ReleasePod, ...]
    free_ports: tuple[FreePort, ...]
    remove_children: tuple[RemoveChild, ...]
    drop_claims: tuple[ClaimSeen, ...]
    reset: tuple[ResetPod, ...]
    prospect: Prospect


def plan(seen: Observed, now: float) -> Plan:
    draft = Draft(prospect_of(seen, now))
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
    drop_claims = _claims_of_nothing(draft)
    for publication in draft.publish:
        draft.set_client(publication.client, publication.ready)
    return Plan(
        confirm=tuple(draft.confirm),
        create=tuple(draft.create),
        claim=tuple(draft.claim),
        claim_ports=tuple(draft.claim_ports),
        apply=tuple(draft.apply),
        publish=tuple(draft.publish),
        remove=tuple(draft.remove),
        release=tuple(draft.release),
        free_ports=tuple(draft.free_ports),
        remove_children=tuple(draft.remove_children),
        drop_claims=tuple(drop_claims),
        reset=tuple(draft.reset),
        prospect=draft.sealed(),
    )


def _claims_of_nothing(draft: Draft) -> list[ClaimSeen]:
    """Leases of ours whose pod is gone."""
    found = []
    for pod, claim in draft.seen.claims.items():
        if pod in draft.seen.pods:
            continue
        if pod in draft.seen.gone:
            found.append(claim)
            draft.needs_fence = True
        elif pod not in draft.confirm:
            draft.confirm.append(pod)
    return found
