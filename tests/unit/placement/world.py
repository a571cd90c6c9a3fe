"""A cluster of a few lines: a scheduler, a ReplicaSet controller, nodes, and users who report.

It does what `plan` orders in the order in which `apply` does, and may stop after any write, as
an operator does that is killed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import msgspec

from edgewise.api.placement import (
    LatencyPlacement,
    LatencyPlacementSpec,
    LatencyPlacementStatus,
    Target,
)
from edgewise.kube.objects import ObjectMeta
from edgewise.placement.observed import NodeHere, Observed, PodHere, Refusal, Role, TargetHere
from edgewise.placement.plan import Plan, plan
from edgewise.placement.ranking import Value
from edgewise.placement.votes import Ballot

START = 1_800_000_000.0


@dataclass
class Box:
    """A pod of the world."""

    name: str
    uid: str
    role: Role
    nodes: list[str]
    node: str = ""
    ready_at: float | None = None
    deleting_at: float | None = None
    cost: bool = False
    unschedulable_since: float | None = None
    unready: bool = False
    directed: bool = False  # to a node that is known already: that is no visit


class Killed(Exception):
    """The operator ended in the middle of its writes."""


@dataclass
class World:
    rtts: dict[str, float]
    replicas: int = 1
    on: list[str] = field(default_factory=list)
    spec: dict[str, Any] = field(default_factory=dict)
    start_seconds: float = 1.0
    full: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)  # nodes whose pods nobody reports
    reports: bool = True
    probes: bool = False
    noise: Any = None
    quota: int = 0
    squatters: int = 0  # so many names of sentinels belong to pods of somebody else
    prefer: list[str] = field(default_factory=list)  # what kube-scheduler chooses first
    detour: dict[str, float] = field(default_factory=dict)  # what users measure, not their probes
    unprobed: set[str] = field(default_factory=set)  # nodes without a ping agent
    late: Any = None  # by how many ms a vote is too long: of "probe" or "report", node and T_O

    def __post_init__(self) -> None:
        self.now = START
        self.down: set[str] = set()
        self.cordoned: set[str] = set()
        self.revision = "rev1"
        self.rolling = False
        self.target = True
        self.status = LatencyPlacementStatus()
        self.uids = 0
        self.pods: list[Box] = []
        for node in self.on or list(self.rtts)[: self.replicas]:
            self.pods.append(self._new(f"web-{self.uids}", Role.REPLICA, [node], node=node))
            self.pods[-1].ready_at = START - 100
        self.least_ready = self.replicas
        self.most_live = self.replicas
        self.sentinel_nodes: list[tuple[int, str]] = []  # (search, node)
        self.visits: list[tuple[int, str]] = []  # of those, without the directed ones
        self.moves: list[str] = []
        self.risks: list[str] = []  # what was done that may leave fewer than R ready
        self.log: list[str] = []
        self.refused: dict[str, Refusal] = {}
        self.squatted: list[str] = []
        self.over_since: float | None = None
        self.faded: dict[str, float] = {}  # means that are not yet what the last votes say
        self.generation = 1
        self.ballots: dict[str, Ballot] = {}  # by node, and by uid of a pod; only with `late`

    def _new(self, name: str, role: Role, nodes: list[str], node: str = "") -> Box:
        self.uids += 1
        return Box(name, f"u{self.uids}", role, nodes, node)

    # What the operator sees ---------------------------------------------------------

    def seen(self) -> Observed:
        spec = {"target": Target(name="web"), "max_moves_per_hour": 0, **self.spec}
        placement = LatencyPlacement(
            metadata=ObjectMeta(name="web", namespace="n", uid="p", generation=self.generation),
            spec=LatencyPlacementSpec(**spec),
            status=self.status,
        )
        target = TargetHere(replicas=self.replicas, revision=self.revision, rolling=self.rolling)
        return Observed(
            placement=placement,
            target=target if self.target else None,
            pods=tuple(self.seen_pod(box) for box in self.pods),
            nodes=tuple(
                NodeHere(
                    name=node,
                    hostname=node,
                    ready=node not in self.down,
                    cordoned=node in self.cordoned,
                )
                for node in self.rtts
            ),
            heard=self.heard(),
            probed=self.probed() if self.probes and self.reports else {},
            refused=dict(self.refused),
            over_since=self.over_since,
        )

    def is_heard(self, box: Box) -> bool:
        return (
            box.ready_at is not None
            and self.now >= box.ready_at + 1.0
            and box.node not in self.silent
        )

    def heard(self) -> dict[str, Value]:
        if not self.reports:
            return {}
        if self.late is not None:
            return self.voted({box.uid: box.node for box in self.pods if box.uid in self.ballots})
        return {
            box.uid: self.value(box.node, self.detour) for box in self.pods if self.is_heard(box)
        }

    def probed(self) -> dict[str, Value]:
        if self.late is not None:
            return self.voted({node: node for node in self.rtts if node in self.ballots})
        return {node: self.value(node) for node in self.rtts if node not in self.unprobed}

    def vote(self) -> None:
        """Once in T_O each client votes on each node, and on each pod that answers."""
        second = math.floor(self.now)
        for node, rtt in self.rtts.items() if self.probes else ():
            self.cast(node, rtt + self.late("probe", node, second))
        for box in self.pods:
            if self.is_heard(box) and box.deleting_at is None:
                self.cast(box.uid, self.rtts[box.node] + self.late("report", box.node, second))

    def cast(self, subject: str, rtt: float) -> None:
        self.ballots.setdefault(subject, Ballot()).cast("ann", rtt, at=self.now, period=1.0)

    def voted(self, subjects: dict[str, str]) -> dict[str, Value]:
        """By the subject of a vote, which is about a node."""
        found = {}
        for subject, node in subjects.items():
            tally = self.ballots[subject].tally(self.now, half_life=2.0, min_clients=1)
            if tally is not None:
                found[subject] = Value(
                    node=node,
                    rtt_ms=tally.rtt_ms,
                    p95_ms=tally.p95_ms,
                    newest_ms=tally.newest_ms,
                    least_ms=tally.least_ms,
                    settled=tally.settled,
                    n=tally.clients,
                    last=tally.last,
                )
        return found

    def value(self, node: str, detour: dict[str, float] | None = None) -> Value:
        rtt = (detour or {}).get(node, self.rtts[node])
        rtt += self.noise(node) if self.noise else 0.0
        rtt = max(0.01, rtt)
        mean = self.faded.get(node, rtt)
        return Value(node=node, rtt_ms=mean, p95_ms=rtt, newest_ms=rtt, n=1, last=self.now)

    def seen_pod(self, box: Box) -> PodHere:
        return PodHere(
            name=box.name,
            uid=box.uid,
            role=box.role,
            node=box.node,
            ready=self.ready(box),
            ready_since=box.ready_at or 0.0,
            deleting=box.deleting_at is not None,
            cost=box.cost,
            unschedulable_since=box.unschedulable_since,
        )

    def ready(self, box: Box) -> bool:
        up = box.ready_at is not None and box.ready_at <= self.now
        return up and not box.unready and box.node not in self.down

    # What the operator does ---------------------------------------------------------

    def step(self, writes: int | None = None) -> Plan:
        """One reconcile; after so many writes it is killed."""
        made = plan(self.seen(), self.now)
        left = [10**9 if writes is None else writes]

        def may() -> None:
            if left[0] == 0:
                raise Killed
            left[0] -= 1

        try:
            if made.status != self.status:
                may()
                self.status = msgspec.json.decode(
                    msgspec.json.encode(made.status), type=LatencyPlacementStatus
                )
            for pod in made.delete:
                may()
                box = self.box(pod.uid)
                if box.role is Role.REPLICA:
                    self.risks.append(f"deleted {box.name}")
                box.deleting_at = box.deleting_at or self.now
            for order in made.create:
                may()
                self.create(order.name, list(order.nodes), directed=bool(order.replaces))
            for pod in made.cost:
                may()
                self.box(pod.uid).cost = True
            for each in made.promote:
                may()
                self.promote(each.pod.uid)
            for pod in made.uncost:
                may()
                self.box(pod.uid).cost = False
        except Killed:
            pass
        self.look()
        return made

    def box(self, uid: str) -> Box:
        return next(box for box in self.pods if box.uid == uid)

    def create(self, name: str, nodes: list[str], *, directed: bool = False) -> None:
        if any(box.name == name for box in self.pods):
            return
        if len(self.squatted) < self.squatters:
            self.squatted.append(name)
            self.refused[name] = Refusal(False, "another pod has the name", taken=True)
            return
        if self.quota and len(self.pods) >= self.quota:
            self.refused[name] = Refusal(True, "exceeded quota")
            return
        self.pods.append(self._new(name, Role.SENTINEL, nodes))
        self.pods[-1].directed = directed
        self.most_live = max(self.most_live, sum(box.deleting_at is None for box in self.pods))

    def promote(self, uid: str) -> None:
        box = self.box(uid)
        assert box.role is Role.SENTINEL
        mine = [each for each in self.pods if each.role is Role.REPLICA and not each.deleting_at]
        # The ReplicaSet would delete who is not ready, whatever it costs.
        if len(mine) < self.replicas or not all(self.ready(each) for each in (box, *mine)):
            self.risks.append(f"promoted {box.name} while not all were ready")
        box.role = Role.PROMOTED
        self.moves.append(box.node)

    # What Kubernetes does -----------------------------------------------------------

    def tick(self, seconds: float = 0.25) -> None:
        self.now += seconds
        assert self.now < START + 5_000, "this goes on for ever"
        for box in self.pods:
            if box.role is Role.PROMOTED:
                box.role = Role.REPLICA
            if not box.node and box.deleting_at is None:
                self._schedule(box)
        self._replace()
        if self.late is not None:
            self.vote()
        self.pods = [
            box for box in self.pods if box.deleting_at is None or self.now < box.deleting_at + 2
        ]
        self.look()

    def _schedule(self, box: Box) -> None:
        taken = {other.node for other in self.pods}
        fits = [
            node
            for node in box.nodes
            if node not in self.down | self.cordoned | self.full and node in self.rtts
        ]
        fits.sort(key=lambda node: self.prefer.index(node) if node in self.prefer else 99)
        if not fits:
            box.unschedulable_since = box.unschedulable_since or self.now
            return
        box.node = next((node for node in fits if node not in taken), fits[0])
        box.ready_at = self.now + self.start_seconds
        if box.role is Role.SENTINEL:
            self.sentinel_nodes.append((self.status.search.number, box.node))
            if not box.directed:
                self.visits.append((self.status.search.number, box.node))

    def _replace(self) -> None:
        """As a ReplicaSet: unready pods go before costly ones."""
        mine = [box for box in self.pods if box.role is Role.REPLICA and box.deleting_at is None]
        surplus = len(mine) - self.replicas
        for box in sorted(mine, key=lambda each: (self.ready(each), not each.cost))[
            : max(0, surplus)
        ]:
            box.deleting_at = self.now
        for _ in range(-surplus):
            self.pods.append(self._new(f"web-{self.uids}", Role.REPLICA, list(self.rtts)))

    def look(self) -> None:
        ready = [
            box
            for box in self.pods
            if self.ready(box) and box.deleting_at is None and box.role is not Role.SENTINEL
        ]
        self.least_ready = min(self.least_ready, len(ready))

    # Running ------------------------------------------------------------------------

    def run(self, seconds: float = 120.0, *, until_ended: bool = True) -> World:
        end = self.now + seconds
        while self.now < end:
            for _ in range(4):
                self.step()
            if until_ended and self.status.search.ended_at is not None:
                return self
            self.tick()
        return self

    def held(self) -> list[str]:
        return sorted(
            box.node
            for box in self.pods
            if box.role in (Role.REPLICA, Role.PROMOTED) and box.deleting_at is None
        )

    def why(self) -> dict[str, str]:
        return {each.node: each.why for each in self.status.visited}
