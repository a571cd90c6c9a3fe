"""The session's status as a step leaves it: what holds once the orders are carried out."""

from __future__ import annotations

from collections.abc import Mapping, Set

import msgspec

from edgewise.api.sessions import ClientStatus, IdlePod, Refusal, Revision, SessionStatus, Workload
from edgewise.sessions.digest import Digest, digest_of
from edgewise.sessions.observed import Observed
from edgewise.sessions.orders import Note, Tally
from edgewise.sessions.pods import Made, made_from
from edgewise.workloads.pods_seen import PodSeen

NO_WORKLOAD = Workload()


class Prospect(msgspec.Struct, frozen=True, kw_only=True):
    """A value: a step takes one, works on a draft of it, and answers another."""

    seen: Observed
    now: float
    made: tuple[Made, ...]  # of the pod templates, as they are now
    before: Digest  # of the status that is written
    digest: Digest  # of the one to come
    next: int
    recoveries: int
    clients: Mapping[str, ClientStatus]
    idle: Mapping[str, IdlePod]
    revisions: Mapping[str, Revision]
    refusals: Mapping[str, Refusal]
    touched: Set[str] = frozenset()  # clients
    touched_pods: Set[str] = frozenset()
    claimed: Mapping[str, PodSeen] = {}
    # Revisions of which a pod is asked for although others were refused.
    urgent: Set[str] = frozenset()
    # Revisions of which somebody still lacks a pod.
    unplaced: Set[str] = frozenset()
    deadlines: tuple[float, ...] = ()
    findings: Mapping[str, str] = {}  # reason -> message, of what is wrong
    notes: tuple[Note, ...] = ()
    tally: Tally = msgspec.field(default_factory=Tally)
    # Something is to be undone that only a written status proves to be out of use.
    needs_fence: bool = False

    @property
    def old(self) -> SessionStatus:
        return self.seen.session.status


def prospect_of(seen: Observed, now: float) -> Prospect:
    """The status as it is."""
    old, workload = seen.session.status, seen.workload or NO_WORKLOAD
    digest = seen.digest or digest_of(old)
    return Prospect(
        seen=seen,
        now=now,
        made=tuple([made_from(template, workload) for template in workload.pod_templates]),
        before=digest,
        digest=digest,
        next=old.next,
        recoveries=old.recoveries,
        clients=old.clients,
        idle=old.idle,
        revisions=old.revisions,
        refusals=old.refusals,
    )
