"""The session's status while a step works on it.

Records are replaced, never changed: those of the old status are shared with the cache. What
was touched is remembered, so that the patch, and the work for it, is as small as the change.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from edgewise.api.sessions import ClientStatus, IdlePod, Refusal, Revision
from edgewise.sessions.digest import DigestDraft
from edgewise.sessions.orders import Note
from edgewise.sessions.pods import Made
from edgewise.sessions.prospect import NO_WORKLOAD, Prospect
from edgewise.workloads.pods_seen import PodSeen


class StatusDraft:
    """All that the second step, `settle`, may change; `Draft` has what the first one needs."""

    def __init__(self, start: Prospect) -> None:
        self.start = start
        self.seen = start.seen
        self.now = start.now
        self.old = start.old
        self.workload = start.seen.workload or NO_WORKLOAD
        self.made: tuple[Made, ...] = start.made
        self.next = start.next
        self.recoveries = start.recoveries
        self.clients: dict[str, ClientStatus] = dict(start.clients)
        self.idle: dict[str, IdlePod] = dict(start.idle)
        self.revisions: dict[str, Revision] = dict(start.revisions)
        self.refusals: dict[str, Refusal] = dict(start.refusals)
        self.digest = DigestDraft.of(start.digest)
        self.revision_of = self.digest.revision_of
        self.ip_of = self.digest.ip_of
        self.load = self.digest.load
        self.old_revision_of = start.before.revision_of
        self.old_ip_of = start.before.ip_of
        self.touched: set[str] = set(start.touched)
        self.touched_pods: set[str] = set(start.touched_pods)
        self.claimed: dict[str, PodSeen] = dict(start.claimed)
        self.urgent: set[str] = set(start.urgent)
        self.unplaced: set[str] = set(start.unplaced)
        self.deadlines: list[float] = list(start.deadlines)
        self.findings: dict[str, str] = dict(start.findings)
        self.notes: list[Note] = list(start.notes)
        self.tally = msgspec.structs.replace(start.tally, late=list(start.tally.late))
        self.needs_fence = start.needs_fence

    def sealed(self) -> Prospect:
        """What was worked out. The draft is not to be used any more: nothing is copied."""
        return Prospect(
            seen=self.seen,
            now=self.now,
            made=self.made,
            before=self.start.before,
            digest=self.digest.sealed(),
            next=self.next,
            recoveries=self.recoveries,
            clients=self.clients,
            idle=self.idle,
            revisions=self.revisions,
            refusals=self.refusals,
            touched=self.touched,
            touched_pods=self.touched_pods,
            claimed=self.claimed,
            urgent=self.urgent,
            unplaced=self.unplaced,
            deadlines=tuple(self.deadlines),
            findings=self.findings,
            notes=tuple(self.notes),
            tally=self.tally,
            needs_fence=self.needs_fence,
        )

    # Clients ------------------------------------------------------------------------

    def set_client(self, client: str, record: ClientStatus) -> None:
        before = self.clients.get(client)
        if before != record:
            self.clients[client] = record
            self.digest.take_in(client, before, record)
            self.touched.add(client)

    def unseat(self, client: str, pod_template: str) -> None:
        record = self.clients[client]
        pods = {name: pod for name, pod in record.pods.items() if name != pod_template}
        self.leave_seats({pod_template: record.pods[pod_template]})
        self.set_client(client, msgspec.structs.replace(record, pods=pods))

    def leave_seats(self, seats: Mapping[str, str]) -> None:
        for pod in seats.values():
            left = self.load.pop(pod, 0) - 1
            if left > 0:
                self.load[pod] = left

    # Pods ---------------------------------------------------------------------------

    def set_ip(self, pod: str, ip: str) -> None:
        self.ip_of[pod] = ip
        self.touched_pods.add(pod)

    def drop_pod(self, pod: str) -> None:
        """Forget a pod: from the next status on it is to be removed, whoever sees it."""
        del self.revision_of[pod]
        del self.ip_of[pod]
        self.touched_pods.add(pod)
        self.idle.pop(pod, None)

    def revision_under(self, pod: str) -> Revision | None:
        return self.revisions.get(self.revision_of.get(pod, ""))

    def pod(self, pod: str) -> PodSeen | None:
        """A pod of the session, or one that this plan claims for it."""
        return self.seen.pods.get(pod) or self.claimed.get(pod)

    # Words and time -----------------------------------------------------------------

    def due(self, deadline: float) -> bool:
        """Whether a deadline has passed; if not, it is one to come back at."""
        if deadline > self.now:
            self.deadlines.append(deadline)
            return False
        self.tally.late.append(self.now - deadline)
        return True

    def warn(self, reason: str, text: str) -> None:
        self.findings.setdefault(reason, text)

    def note(self, reason: str, text: str, *, warning: bool = False) -> None:
        self.notes.append(Note(reason, text, warning))
