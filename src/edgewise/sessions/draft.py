"""The session's status while a plan works on it.

Records are replaced, never changed: those of the old status are shared with the cache. What
was touched is remembered, so that the patch, and the work for it, is as small as the change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

import msgspec

from edgewise.api.sessions import ClientStatus, Failures, IdlePod, Revision, Workload
from edgewise.sessions.digest import digest_of
from edgewise.sessions.observed import Observed, PodSeen
from edgewise.sessions.orders import (
    ApplyChild,
    ClaimPod,
    ClaimPort,
    CreatePod,
    FreePort,
    Note,
    Publication,
    ReleasePod,
    RemoveChild,
    RemovePod,
    ResetPod,
    Tally,
)
from edgewise.sessions.pods import Made, made_from

NO_WORKLOAD = Workload()


class Draft:
    def __init__(self, seen: Observed, now: float) -> None:
        self.seen = seen
        self.now = now
        self.old = seen.session.status
        self.workload = seen.workload or NO_WORKLOAD
        self.made: list[Made] = [
            made_from(template, self.workload) for template in self.workload.pod_templates
        ]
        old = self.old
        self.next = old.next
        self.recoveries = old.recoveries
        self.clients: dict[str, ClientStatus] = dict(old.clients)
        self.idle: dict[str, IdlePod] = dict(old.idle)
        self.revisions: dict[str, Revision] = dict(old.revisions)
        self.failures: dict[str, Failures] = dict(old.failures)
        before = seen.digest or digest_of(old)
        self.digest = before.copy()
        self.revision_of = self.digest.revision_of
        self.ip_of = self.digest.ip_of
        self.load = self.digest.load
        self.old_revision_of = before.revision_of
        self.old_ip_of = before.ip_of
        # Pods that are not as they were when the digest was made; None: nobody knows.
        self.changed_pods = seen.changed_pods if seen.digest else None
        self.touched: set[str] = set()
        self.touched_pods: set[str] = set()
        # Pods that no longer serve whoever sits in them, and why.
        self.dead: dict[str, str] = {}
        # By pod template: clients that lost their pod together.
        self.bereaved: dict[str, list[list[str]]] = defaultdict(list)
        # Pods of ours without clients that nobody has used since they were clean.
        self.unused: set[str] = set()
        # Endpoints that were worked out but do not work yet, by client and pod template.
        self.tentative: dict[tuple[str, str], dict[str, str]] = {}
        self.picked: set[int] = set()  # public ports that this plan takes
        self.deadlines: list[float] = []
        self.findings: dict[str, str] = {}  # reason -> message, of what is wrong

        self.confirm: list[str] = []
        self.create: list[CreatePod] = []
        self.claim: list[ClaimPod] = []
        self.claimed: dict[str, PodSeen] = {}
        self.claim_ports: list[ClaimPort] = []
        self.apply: list[ApplyChild] = []
        self.publish: list[Publication] = []
        self.remove: list[RemovePod] = []
        self.release: list[ReleasePod] = []
        self.free_ports: list[FreePort] = []
        self.remove_children: list[RemoveChild] = []
        self.reset: list[ResetPod] = []
        self.notes: list[Note] = []
        self.tally = Tally()
        # Something is to be undone that only a written status proves to be out of use.
        self.needs_fence = False

    # Clients ------------------------------------------------------------------------

    def set_client(self, client: str, record: ClientStatus) -> None:
        before = self.clients.get(client)
        if before != record:
            self.clients[client] = record
            self.digest.take_in(client, before, record)
            self.touched.add(client)

    def forget_client(self, client: str) -> None:
        record = self.clients.pop(client)
        self.leave_seats(record.pods)
        self.digest.take_in(client, record, None)
        self.touched.add(client)

    def seat(self, client: str, pod_template: str, pod: str) -> None:
        record = self.clients[client]
        self.set_client(
            client, msgspec.structs.replace(record, pods={**record.pods, pod_template: pod})
        )
        self.load[pod] = self.load.get(pod, 0) + 1
        self.idle.pop(pod, None)
        self.unused.discard(pod)

    def unseat(self, client: str, pod_template: str) -> None:
        record = self.clients[client]
        pods = {name: pod for name, pod in record.pods.items() if name != pod_template}
        self.leave_seats({pod_template: record.pods[pod_template]})
        self.set_client(client, msgspec.structs.replace(record, pods=pods))

    def leave_seats(self, seats: dict[str, str]) -> None:
        for pod in seats.values():
            left = self.load.pop(pod, 0) - 1
            if left > 0:
                self.load[pod] = left

    @cached_property
    def occupants(self) -> dict[str, list[tuple[str, str]]]:
        """Pod to (client, pod template), as it was before this plan."""
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for client, record in self.old.clients.items():
            for pod_template, pod in record.pods.items():
                found[pod].append((client, pod_template))
        return found

    # Pods ---------------------------------------------------------------------------

    def add_pod(self, pod: str, revision: str, ip: str, ordinal: int) -> None:
        self.revision_of[pod] = revision
        self.set_ip(pod, ip)
        self.next = max(self.next, ordinal + 1)

    def set_ip(self, pod: str, ip: str) -> None:
        self.ip_of[pod] = ip
        self.touched_pods.add(pod)

    def drop_pod(self, pod: str) -> None:
        """Forget a pod: from the next status on it is to be removed, whoever sees it."""
        del self.revision_of[pod]
        del self.ip_of[pod]
        self.touched_pods.add(pod)
        self.idle.pop(pod, None)
        self.unused.discard(pod)

    def take_ordinal(self) -> int:
        ordinal = self.next
        self.next += 1
        return ordinal

    def template_of(self, pod: str) -> str:
        revision = self.revisions.get(self.revision_of[pod])
        return revision.pod_template if revision else ""

    def revision_under(self, pod: str) -> Revision | None:
        return self.revisions.get(self.revision_of.get(pod, ""))

    def pod(self, pod: str) -> PodSeen | None:
        """A pod of the session, or one that this plan claims for it."""
        return self.seen.pods.get(pod) or self.claimed.get(pod)

    def usable(self, pod: str) -> PodSeen | None:
        """A pod that may get (more) clients."""
        seen = self.seen.pods.get(pod)
        if seen is None or pod in self.dead or seen.node in self.seen.lost_nodes:
            return None
        return seen

    def remove_pod(self, pod: PodSeen) -> None:
        self.remove.append(RemovePod(pod, self.seen.claims.get(pod.name)))

    # Time ---------------------------------------------------------------------------

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


def named(things: Iterable[str], most: int = 3) -> str:
    """A list for a sentence: the first few, and how many more there are."""
    listed = sorted(things)
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more} more" if more > 0 else "")
