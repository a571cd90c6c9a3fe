"""A plan while it is made: the draft of the status, what was found out, and the orders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

import msgspec

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
from edgewise.sessions.prospect import Prospect
from edgewise.sessions.status.draft import StatusDraft
from edgewise.workloads.pods_seen import PodSeen


class Fault(msgspec.Struct, frozen=True):
    """What a pod did that failed by itself: one word, and a few."""

    reason: str
    message: str


class Draft(StatusDraft):
    def __init__(self, start: Prospect) -> None:
        super().__init__(start)
        # Pods that are not as they were when the digest was made; None: nobody knows.
        self.changed_pods = self.seen.changed_pods if self.seen.digest else None
        # Pods that no longer serve whoever sits in them, and why.
        self.dead: dict[str, str] = {}
        # Of these, the ones that failed by themselves.
        self.faults: dict[str, Fault] = {}
        # By pod template: clients that lost their pod together.
        self.bereaved: dict[str, list[list[str]]] = defaultdict(list)
        # Pods of ours without clients that nobody has used since they were clean.
        self.unused: set[str] = set()
        # Endpoints that were worked out but do not work yet, by client and pod template.
        self.tentative: dict[tuple[str, str], dict[str, str]] = {}
        self.picked: set[int] = set()  # public ports that this plan takes

        self.confirm: list[str] = []
        self.create: list[CreatePod] = []
        self.claim: list[ClaimPod] = []
        self.claim_ports: list[ClaimPort] = []
        self.apply: list[ApplyChild] = []
        self.publish: list[Publication] = []
        self.remove: list[RemovePod] = []
        self.release: list[ReleasePod] = []
        self.free_ports: list[FreePort] = []
        self.remove_children: list[RemoveChild] = []
        self.reset: list[ResetPod] = []

    # Clients ------------------------------------------------------------------------

    def forget_client(self, client: str) -> None:
        record = self.clients.pop(client)
        self.leave_seats(record.pods)
        self.digest.take_in(client, record, None)
        self.touched.add(client)

    def seat(self, client: str, pod_template: str, pod: str) -> None:
        record = self.clients[client]
        # In another pod the time to become ready begins again.
        pods = {**record.pods, pod_template: pod}
        self.set_client(client, msgspec.structs.replace(record, pods=pods, due=None))
        self.load[pod] = self.load.get(pod, 0) + 1
        self.idle.pop(pod, None)
        self.unused.discard(pod)

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

    def drop_pod(self, pod: str) -> None:
        super().drop_pod(pod)
        self.unused.discard(pod)

    def take_ordinal(self) -> int:
        ordinal = self.next
        self.next += 1
        return ordinal

    def template_of(self, pod: str) -> str:
        revision = self.revisions.get(self.revision_of[pod])
        return revision.pod_template if revision else ""

    def usable(self, pod: str) -> PodSeen | None:
        """A pod that may get (more) clients."""
        seen = self.seen.pods.get(pod)
        if seen is None or pod in self.dead or seen.node in self.seen.lost_nodes or seen.crashing:
            return None
        return seen

    def remove_pod(self, pod: PodSeen) -> None:
        self.remove.append(RemovePod(pod, self.seen.claims.get(pod.name)))


def named(things: Iterable[str], most: int = 3) -> str:
    """A list for a sentence: the first few, and how many more there are."""
    listed = sorted(things)
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more} more" if more > 0 else "")
