"""Placement by measured latency: `placement.edgewise.dev`.

A LatencyPlacement names a Deployment. Its users report what they measure, and the operator
moves the Deployment's pods to the nodes that they measure as nearest.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from edgewise.api.crd import Column, CrdSpec, Scale
from edgewise.api.schema import Rule, as_one, keyed_by, left_open, rules
from edgewise.kube.conditions import Condition
from edgewise.kube.objects import Kind, Object, Record

GROUP = "placement.edgewise.dev"
VERSION = "v1alpha1"

# On the pod template of a target: the LatencyPlacement that looks after it.
NAME_LABEL = f"{GROUP}/name"
# On a pod that was made as a sentinel: the uid of its LatencyPlacement. It stays.
SENTINEL_ANNOTATION = f"{GROUP}/sentinel"
# On a pod that has a deletion cost of ours, with the cost that it had before.
COST_ANNOTATION = f"{GROUP}/cost"
# On a pod that was given a preStop of ours at admission.
DRAIN_ANNOTATION = f"{GROUP}/drain"

Mode = Literal["Sentinel", "Probe", "Estimate"]
TargetKind = Literal["Deployment", "StatefulSet", "SessionTemplate", "Fleet"]  # Fleet: games
Groups = Literal["None", "Declared"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = r"^[0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m|h)$"
Duration = Annotated[
    str,
    Meta(max_length=16, pattern=_DURATION),
    rules(Rule("duration(self) > duration('0s')", "must be longer than 0s")),
]
# Moves of the last hour that a status remembers, and so the highest limit that can be kept.
MOST_MOVES = 1000
Milliseconds = Annotated[float, Meta(gt=0, le=600_000)]


def seconds(written: str) -> float:
    """How long a duration such as 1s, 500ms or 5m is; 0 where it cannot be read."""
    if not re.fullmatch(_DURATION[1:-1], written):
        return 0.0
    number = written.rstrip("msh")
    return float(number) * _UNITS[written[len(number) :]]


class Phase(StrEnum):
    """How a placement stands."""

    SEARCHING = "Searching"
    CONVERGED = "Converged"
    SATISFIED = "Satisfied"  # the SLA holds, and the search ended for it
    VIOLATED = "Violated"  # a full search ended, and the SLA does not hold
    PAUSED = "Paused"  # nothing is done, and the condition Ready says why


class Why(StrEnum):
    """Why a node is not looked at again in this search."""

    WORSE = "Worse"
    REPLACED = "Replaced"  # it held a replica, and another node is better
    NO_ROOM = "NoRoom"
    NO_QUOTA = "NoQuota"
    REFUSED = "Refused"  # the API server would not have a sentinel for it
    NOT_STARTED = "NotStarted"
    NO_REPORTS = "NoReports"
    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    LOST = "Lost"  # its sentinel, or the replica that this became, went without us
    LIMITED = "Limited"  # it is better, and maxMovesPerHour forbids the move
    HELD_BACK = "HeldBack"  # it is better, and replicas were not ready for a move
    UNCONFIRMED = "Unconfirmed"  # a probe said that it is better, and reports did not


class Target(Record, kw_only=True):
    """What is placed."""

    RULES: ClassVar = (
        Rule(
            "!has(self.kind) || self.kind == 'Deployment'",
            "target.kind: only Deployment can be placed; the other kinds are not yet possible",
        ),
    )

    kind: TargetKind = "Deployment"
    name: Annotated[str, Meta(min_length=1, max_length=253)]
    """In the same namespace. Its pod template has the label placement.edgewise.dev/name with the
    name of this object."""


class Nodes(Record):
    selector: Annotated[dict[str, str], Meta(max_length=16)] = {}
    """Labels that a node must have; empty: every node that takes the target's pods."""


class Limit(Record, kw_only=True):
    p95_ms: Milliseconds
    """The round trip that 95 of 100 clients must not exceed."""


class MinImprovement(Record):
    """Both must be reached before anything moves."""

    ms: Annotated[float, Meta(ge=0, le=10_000)] = 5.0
    percent: Annotated[float, Meta(ge=0, le=100)] = 10.0


class Reports(Record):
    RULES: ClassVar = (
        Rule(
            "!has(self.groups) || self.groups == 'None'",
            "reports.groups: Declared is not yet possible",
        ),
    )

    min_clients: Annotated[int, Meta(ge=1, le=10_000)] = 1
    """How many clients must report a node before it has a value."""
    max_rtt_ms: Milliseconds = 10_000.0
    """A report of more is refused."""
    half_life: Duration = "2s"
    """After so long a report counts half."""
    groups: Groups = "None"


class LatencyPlacementSpec(Record, kw_only=True):
    """What is to be placed, and how."""

    RULES: ClassVar = (
        Rule(
            "!has(self.mode) || self.mode != 'Estimate'",
            "mode: Estimate is not yet possible; use Sentinel or Probe",
        ),
        Rule(
            "!has(self.sla) || !has(self.threshold) || self.sla.p95Ms <= self.threshold.p95Ms",
            "sla.p95Ms must not be above threshold.p95Ms",
        ),
    )

    target: Target
    application: Annotated[str, Meta(max_length=253)] = ""
    """The application whose API token hands out report keys; empty: only an admin's does."""
    mode: Mode = "Sentinel"
    """Sentinel: pods are started on other nodes, and users measure them. Probe: users measure the
    nodes themselves, and only the best one gets a pod."""
    sentinels: Annotated[int, Meta(ge=1, le=100)] = 1
    """How many pods beside the replicas a search may use at once."""
    nodes: Nodes = msgspec.field(default_factory=Nodes)
    max_per_node: Annotated[int, Meta(ge=0, le=1000)] = 0
    """Replicas on one node; 0: one while there are more nodes than replicas, else as few as
    possible."""
    observation: Duration = "1s"
    """For how long a pod is measured."""
    trigger: Duration = "5m"
    """After so long a search begins again."""
    threshold: Limit | None = None
    """Above it for twice the observation, a search begins at once."""
    drain_seconds: Annotated[int, Meta(ge=0, le=300)] = 5
    """For how long a pod that goes still answers, while it is taken out of its Service."""
    sla: Limit | None = None
    """A search ends as soon as all replicas keep it."""
    min_improvement: MinImprovement = msgspec.field(default_factory=MinImprovement)
    max_moves_per_hour: Annotated[int, Meta(ge=0, le=MOST_MOVES)] = 12
    """0 is no limit."""
    max_overload_percent: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """Pods in percent of the replicas, ending ones too, that a search may reach; 0 is no limit."""
    reports: Reports = msgspec.field(default_factory=Reports)


class Sentinel(Record, kw_only=True):
    """A pod that was started to be measured."""

    name: str
    nodes: list[str] = []
    """Where it may run."""
    node: str = ""
    """Where it runs, once that is known."""
    ready_at: str | None = None
    replaces: str = ""
    """Only where the node to go to was known before: the replica that is to go."""


class Visited(Record, kw_only=True):
    node: str
    why: str


class Ranked(Record, kw_only=True):
    """What is known of a node."""

    node: str
    rtt_ms: float
    p95_ms: float = 0.0
    clients: int = 0
    """How many clients measured it."""
    age: float = 0.0
    """Seconds since the last report, when this was written."""
    source: str = "Reports"
    """Reports: users of a pod there. Probe: the ping agent of the node."""
    at: str | None = None


class Promotion(Record, kw_only=True):
    """A sentinel that becomes a replica, and the replica that goes for it."""

    sentinel: str
    loser: str
    loser_uid: str
    node: str
    since: str
    gain_ms: float = 0.0
    back_to: str = ""
    """Where it goes back to if reports do not confirm the move."""
    before_ms: float = 0.0


class Decision(Record):
    """What a round came to: written before it is carried out."""

    at: str | None = None
    promote: Annotated[list[Promotion], as_one()] = []
    remove: Annotated[list[str], as_one()] = []
    """Sentinels that go."""


class Unconfirmed(Record, kw_only=True):
    """A move that a probe asked for, until reports have confirmed it."""

    pod: str
    node: str
    back_to: str
    before_ms: float
    until: str


class Search(Record):
    number: int = 0
    """How many searches there were."""
    reason: str = ""
    """Why the last one began: First, Rollout, Trigger, Threshold or Changed."""
    began_at: str | None = None
    ended_at: str | None = None
    revision: str = ""
    """The pod-template-hash of the target at that time."""
    generation: int = 0
    futile: bool = False
    """Whether it could not get below the threshold."""
    won: Annotated[list[str], as_one()] = []
    """Nodes whose sentinels became replicas in it: none is looked at twice in one search."""


class LatencyPlacementStatus(Record):
    """Where the search stands. A restarted operator goes on from here."""

    observed_generation: int = 0
    phase: str = ""
    message: str = ""
    """The best nodes, in words."""
    search: Search = msgspec.field(default_factory=Search)
    round: int = 0
    round_at: str | None = None
    next: int = 0
    """The number that the next sentinel gets; numbers are never given twice."""
    sentinels: Annotated[list[Sentinel], as_one(), left_open()] = []
    running: int | None = None
    """Sentinels that run now, for the scale subresource."""
    visited: Annotated[list[Visited], as_one(), left_open()] = []
    ranking: Annotated[list[Ranked], as_one(), left_open()] = []
    decision: Annotated[Decision | None, as_one(), left_open()] = None
    unconfirmed: Annotated[list[Unconfirmed], as_one(), left_open()] = []
    moves: int = 0
    recent_moves: Annotated[list[str], as_one()] = []
    """Of the last hour."""
    convergence_seconds: float = 0.0
    model_seconds: float = 0.0
    schedule_seconds: float = 0.0
    """Measured T_S: from the order to a ready pod."""
    com_seconds: float = 0.0
    """Measured T_COM: what a round took beside T_S and T_O."""
    overload_percent: float = 0.0
    sentinel_seconds: float = 0.0
    waiting_since: str | None = None
    """Since when there are no reports."""
    conditions: Annotated[list[Condition], keyed_by("type")] = []


class LatencyPlacement(Object, kw_only=True):
    """Moves the pods of a Deployment to the nodes that its users measure as nearest."""

    KIND: ClassVar = Kind(GROUP, VERSION, "LatencyPlacement", "latencyplacements")
    CRD: ClassVar = CrdSpec(
        short_names=("lp",),
        scale=Scale(
            spec_replicas_path=".spec.sentinels",
            status_replicas_path=".status.running",
        ),
        columns=(
            Column("Target", ".spec.target.name"),
            Column("Mode", ".spec.mode"),
            Column("Phase", ".status.phase"),
            Column("Round", ".status.round", "integer"),
            Column("Moves", ".status.moves", "integer"),
            Column("Words", ".status.message"),
            Column("Overload", ".status.overloadPercent", "number", priority=1),
            Column("Converged In", ".status.convergenceSeconds", "number", priority=1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
    RULES: ClassVar = (
        Rule(
            "!has(self.metadata) || size(self.metadata.name) <= 63",
            "metadata.name must have at most 63 characters: it becomes a label of the pods",
        ),
    )

    spec: LatencyPlacementSpec
    status: LatencyPlacementStatus = msgspec.field(default_factory=LatencyPlacementStatus)

    @classmethod
    def mended(cls, document: bytes) -> LatencyPlacement | None:
        """A status that was broken by hand is done without: the search begins again, and pods
        that it does not name are taken away."""
        parts = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
        parts.pop("status", None)
        return msgspec.json.decode(msgspec.json.encode(parts), type=cls)
