"""Game servers: pods that say themselves when they may be deleted. `games.edgewise.dev`.

A Server is one pod. A Fleet keeps a number of servers, a GameType moves a game from one
version of its Fleet to the next, a GameAutoscaler sets its number, and an Allocation, which has
the name of its Server, says that the server is taken.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, field

from edgewise.api.crd import Column, CrdSpec, Scale
from edgewise.api.durations import Duration
from edgewise.api.game_servers import (
    AGE,
    DEFAULT_NODE_LOSS_SECONDS,
    DEFAULT_TIMEOUT,
    FLEET_NAME,
    GAME_NAME,
    GROUP,
    SERVER_NAME,
    SIDECAR,
    SIDECAR_PORT,
    VERSION,
    AgePriority,
    Allowed,
    AnnotationValues,
    Deletion,
    Failures,
    GamePort,
    GameSaid,
    Health,
    Idle,
    LabelValues,
    Operation,
    PodMetadata,
    PodSpec,
    PortPolicy,
    PortProtocol,
    ReadyBy,
    Scheduling,
    Server,
    ServerPort,
    ServerSpec,
    ServerState,
    ServerStatus,
    ShutdownAsked,
    Sidecar,
    StrategyType,
    short_name,
)
from edgewise.api.schema import Rule, as_one, keyed_by
from edgewise.kube.conditions import Condition
from edgewise.kube.objects import Kind, Object, Record

# What is said of one server is in a file of its own, and found here with the rest.
__all__ = [
    "AGE",
    "DEFAULT_NODE_LOSS_SECONDS",
    "DEFAULT_TIMEOUT",
    "FLEET_NAME",
    "GAME_NAME",
    "GROUP",
    "SERVER_NAME",
    "SIDECAR",
    "SIDECAR_PORT",
    "VERSION",
    "AgePriority",
    "Allowed",
    "AnnotationValues",
    "Deletion",
    "Failures",
    "GamePort",
    "GameSaid",
    "Health",
    "Idle",
    "LabelValues",
    "Operation",
    "PodMetadata",
    "PodSpec",
    "PortPolicy",
    "PortProtocol",
    "ReadyBy",
    "Scheduling",
    "Server",
    "ServerPort",
    "ServerSpec",
    "ServerState",
    "ServerStatus",
    "ShutdownAsked",
    "Sidecar",
    "StrategyType",
    "short_name",
]

# Fleets ---------------------------------------------------------------------------------


class Scaling(Record):
    replicas: Annotated[int, Meta(ge=0, le=10_000)] = 0
    age_priority: AgePriority = AgePriority.OLDEST_FIRST
    """Which servers go first when there are too many."""
    prioritize_allowed: bool = True
    """Whether servers that allow their deletion go before others."""


class Strategy(Record):
    """How a GameType moves to a new version."""

    type: StrategyType = StrategyType.ROLLING_UPDATE
    max_surge: int | str = "25%"
    """So many servers, or percent of replicas, may be there beyond replicas."""
    max_unavailable: int | str = "25%"
    """So many servers, or percent of replicas, may be missing of replicas."""


class Overflow(Record):
    """What servers above `replicas` are marked with."""

    labels: LabelValues = {}
    annotations: AnnotationValues = {}


class FleetSpec(Record, kw_only=True):
    """A number of servers that are all alike."""

    scaling: Scaling = field(default_factory=Scaling)
    spec: ServerSpec
    """What each server is. A change is for new servers only; a GameType replaces the old ones."""
    scheduling: Scheduling = Scheduling.PACKED
    """Packed fills nodes, so that others become empty; Distributed spreads servers over them."""
    strategy: Strategy = field(default_factory=Strategy)
    overflow: Overflow = field(default_factory=Overflow)


class ServersStatus(Record):
    """What is said of the servers of a fleet, or of a game."""

    observed_generation: int = 0
    # None and not 0, which would be left out of the columns.
    replicas: int | None = None
    ready: int | None = None
    allocated: int | None = None
    version: str = ""
    selector: str = ""
    conditions: Annotated[list[Condition], keyed_by("type")] = []


class FleetStatus(ServersStatus):
    reserved: int | None = None
    starting: int | None = None
    draining: int | None = None
    unhealthy: int | None = None
    versions: Annotated[dict[str, int], as_one()] = {}
    """Version to how many servers have it."""
    next: int = 0
    """Numbers below this one belong to servers that are or were there, or are being made."""
    failures: Failures | None = None


class Fleet(Object, kw_only=True):
    """A number of game servers, kept."""

    KIND: ClassVar = Kind(GROUP, VERSION, "Fleet", "fleets")
    CRD: ClassVar = CrdSpec(
        short_names=("gfl",),
        columns=(
            Column("Wanted", ".spec.scaling.replicas", "integer"),
            Column("Servers", ".status.replicas", "integer"),
            Column("Ready", ".status.ready", "integer"),
            Column("Allocated", ".status.allocated", "integer"),
            Column("Draining", ".status.draining", "integer", priority=1),
            Column("Version", ".status.version", priority=1),
            AGE,
        ),
        scale=Scale(
            spec_replicas_path=".spec.scaling.replicas",
            status_replicas_path=".status.replicas",
            label_selector_path=".status.selector",
        ),
    )
    RULES: ClassVar = (short_name(FLEET_NAME),)

    spec: FleetSpec
    status: FleetStatus = field(default_factory=FleetStatus)


# Versions -------------------------------------------------------------------------------


class RolloutPhase(StrEnum):
    """How far a GameType has come with its newest version."""

    STEADY = "Steady"  # all servers are of the newest version
    PROGRESSING = "Progressing"
    DRAINING = "Draining"  # new allocations go to the newest; old servers end
    PAUSED = "Paused"
    STOPPED = "Stopped"  # the newest version did not become ready in time


class Rollout(Record):
    RULES: ClassVar = (
        Rule(
            "!has(self.softDeadline) || !has(self.hardDeadline) || "
            "duration(self.softDeadline) <= duration(self.hardDeadline)",
            "softDeadline must not be later than hardDeadline",
            field_path=".softDeadline",
        ),
    )

    ready_percent: Annotated[int, Meta(ge=1, le=100)] = 100
    """So many percent of the new fleet must be ready before new allocations go to it."""
    progress_deadline: Duration = "10m"
    """A version that is not ready by then is stopped, and the old one stays."""
    soft_deadline: Duration | None = None
    """After so long all servers of old versions are asked to end."""
    hard_deadline: Duration | None = None
    """After so long all servers of old versions are ended."""
    paused: bool = False


class GameTypeSpec(Record, kw_only=True):
    fleet_spec: FleetSpec
    rollout: Rollout = field(default_factory=Rollout)


class GameTypeStatus(ServersStatus):
    current_fleet_name: str = ""
    """Where new allocations go."""
    fleets: Annotated[dict[str, int], as_one()] = {}
    """Fleet to how many servers it has."""
    phase: str = ""
    progress_since: str | None = None
    """Since when the newest version is being rolled out."""


class GameType(Object, kw_only=True):
    """A game: the fleet of its newest version, and what is left of older ones."""

    KIND: ClassVar = Kind(GROUP, VERSION, "GameType", "gametypes")
    CRD: ClassVar = CrdSpec(
        short_names=("game",),
        columns=(
            Column("Wanted", ".spec.fleetSpec.scaling.replicas", "integer"),
            Column("Ready", ".status.ready", "integer"),
            Column("Allocated", ".status.allocated", "integer"),
            Column("Phase", ".status.phase"),
            Column("Fleet", ".status.currentFleetName", priority=1),
            AGE,
        ),
        scale=Scale(
            spec_replicas_path=".spec.fleetSpec.scaling.replicas",
            status_replicas_path=".status.replicas",
            label_selector_path=".status.selector",
        ),
    )
    RULES: ClassVar = (short_name(GAME_NAME),)

    spec: GameTypeSpec
    status: GameTypeStatus = field(default_factory=GameTypeStatus)


# Scaling --------------------------------------------------------------------------------


class PolicyType(StrEnum):
    WEBHOOK = "webhook"
    BUFFER = "buffer"
    SCHEDULE = "schedule"


class SyncType(StrEnum):
    FIXED_INTERVAL = "fixedinterval"
    ON_CHANGE = "onchange"


class WebhookService(Record, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=63)]
    namespace: Annotated[str, Meta(max_length=63)] = ""
    """Empty: that of the autoscaler."""
    port: Annotated[int, Meta(ge=1, le=65535)] = 80


class WebhookPolicy(Record):
    """Who is asked how many servers there should be."""

    RULES: ClassVar = (
        Rule(
            "has(self.url) != has(self.service)",
            "webhook needs either url or service, not both",
            field_path=".url",
        ),
        Rule(
            "!has(self.url) || self.url.matches('^https?://[^/?#]+')",
            "webhook.url must begin with http:// or https:// and name a host",
            field_path=".url",
        ),
    )

    url: Annotated[str, Meta(min_length=1, max_length=2048)] | None = None
    """Its whole address, in place of `service` and `path`."""
    service: WebhookService | None = None
    path: Annotated[str, Meta(max_length=1024)] = ""
    """Of the Service, such as /scale."""


class BufferPolicy(Record):
    size: int | str = 1
    """So many servers are kept ready, as a number or as percent of all."""


class ScheduleEntry(Record, kw_only=True):
    cron: Annotated[str, Meta(min_length=9, max_length=128)]
    """Minute, hour, day of month, month, day of week: from then on, until the next entry."""
    replicas: Annotated[int, Meta(ge=0, le=10_000)]
    """So many servers."""


class SchedulePolicy(Record):
    zone: Annotated[str, Meta(max_length=64)] = "UTC"
    """The time zone of the entries, such as Europe/Lisbon."""
    entries: Annotated[list[ScheduleEntry], Meta(min_length=1, max_length=64)] = []
    """The one that came due last says the number."""


class ScalingPolicy(Record, kw_only=True):
    """What says the number: a program of yours, a buffer of free servers, or the time."""

    RULES: ClassVar = (
        Rule(
            "has(self.webhook) == (self.type == 'webhook')",
            "policy.webhook is for type webhook, which needs it",
            field_path=".webhook",
        ),
        Rule(
            "has(self.buffer) == (self.type == 'buffer')",
            "policy.buffer is for type buffer, which needs it",
            field_path=".buffer",
        ),
        Rule(
            "has(self.schedule) == (self.type == 'schedule')",
            "policy.schedule is for type schedule, which needs it",
            field_path=".schedule",
        ),
    )

    type: PolicyType
    webhook: WebhookPolicy | None = None
    buffer: BufferPolicy | None = None
    schedule: SchedulePolicy | None = None


class Sync(Record):
    """When the policy is looked at: every `interval`, or when servers change."""

    type: SyncType = SyncType.FIXED_INTERVAL
    interval: Duration = "30s"


class Stabilization(Record):
    """A number is changed to the least (up) or most (down) that was wished for in this time."""

    up: Duration = "0s"
    down: Duration = "0s"


class GameAutoscalerSpec(Record, kw_only=True):
    RULES: ClassVar = (
        Rule(
            "!has(self.max) || (has(self.min) ? self.min : 0) <= self.max",
            "min must not be above max",
            field_path=".min",
        ),
    )

    game_name: Annotated[str, Meta(min_length=1, max_length=GAME_NAME)]
    """The GameType, in the same namespace."""
    policy: ScalingPolicy
    sync: Sync = field(default_factory=Sync)
    min: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Never fewer servers."""
    max: Annotated[int, Meta(ge=0, le=10_000)] | None = None
    """Never more, unless more are allocated."""
    stabilization: Stabilization = field(default_factory=Stabilization)
    max_step: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    """At most so many servers more or fewer at once."""


class GameAutoscalerStatus(Record):
    observed_generation: int = 0
    current: int | None = None
    """So many servers the game wants now."""
    desired: int | None = None
    """So many the policy wishes for, within all bounds."""
    last_scaled: str | None = None
    conditions: Annotated[list[Condition], keyed_by("type")] = []


class GameAutoscaler(Object, kw_only=True):
    """Sets the number of servers of a game."""

    KIND: ClassVar = Kind(GROUP, VERSION, "GameAutoscaler", "gameautoscalers")
    CRD: ClassVar = CrdSpec(
        short_names=("gas",),
        columns=(
            Column("Game", ".spec.gameName"),
            Column("Policy", ".spec.policy.type"),
            Column("Current", ".status.current", "integer"),
            Column("Desired", ".status.desired", "integer"),
            AGE,
        ),
    )

    spec: GameAutoscalerSpec
    status: GameAutoscalerStatus = field(default_factory=GameAutoscalerStatus)


# Allocation -----------------------------------------------------------------------------

MATCH_LENGTH = 128
# Servers that one Allocation takes out of a fleet.
MOST_RETIRED = 200


class WaitingSelector(Record):
    labels: Annotated[str, Meta(max_length=512)] = ""
    version: Annotated[str, Meta(max_length=63)] = ""


class WaitingInLine(Record, kw_only=True):
    """A match that waits until a server of its game is free."""

    until: str
    """Afterwards it waits no longer."""
    selectors: Annotated[list[WaitingSelector], Meta(max_length=16)] = []
    """Which servers would do, tried in this order."""


class AllocationSpec(Record, kw_only=True):
    """Why a server is taken, and by whom."""

    RULES: ClassVar = (
        Rule(
            "(has(self.serverUid) ? 1 : 0) + (has(self.waiting) ? 1 : 0) + "
            "(has(self.retires) ? 1 : 0) == 1",
            "an Allocation has a serverUid, or it waits for a server, or it retires servers",
            field_path=".serverUid",
        ),
    )

    server_uid: Annotated[str, Meta(max_length=64)] = ""
    """Of the Server of the same name: a successor of that name is not taken by this."""
    waiting: WaitingInLine | None = None
    """Set if it has no server yet. Its name ends in .waiting then, which no server's can."""
    retired: bool = False
    """Taken by the operator, which is about to remove it: nobody plays on it."""
    retires: Annotated[
        dict[str, Annotated[str, Meta(max_length=64)]], Meta(max_length=MOST_RETIRED), as_one()
    ] = {}
    """Servers that a fleet removes, name and uid: no match that comes later gets one of them. The
    name of such an Allocation ends in .retired, which no server's can."""
    game: Annotated[str, Meta(max_length=63)] = ""
    fleet: Annotated[str, Meta(max_length=63)] = ""
    match: Annotated[str, Meta(max_length=MATCH_LENGTH)] = ""
    """What the caller names it by; one match has one server."""
    players: Annotated[list[Annotated[str, Meta(max_length=128)]], Meta(max_length=256)] = []
    holder: Annotated[str, Meta(max_length=260)] = ""
    """Who allocated it."""
    acknowledge_seconds: Annotated[float, Meta(ge=0, le=31_536_000)] = 0
    """Its holder is told when the game has acknowledged it; after so long it is taken back."""
    lease_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] = 0
    """After so long without a word of the holder and without players it ends; 0: it does not."""
    metadata: Annotated[
        dict[str, Annotated[str, Meta(max_length=4096)]], Meta(max_length=64), as_one()
    ] = {}
    """What the game is told."""


class AllocationStatus(Record):
    revision: str = ""
    """The resourceVersion of its creation, recorded with its first change."""
    renewed: str | None = None
    """When the holder last said that it is there."""
    acknowledged: str | None = None
    """When the game acknowledged it."""


class Allocation(Object, kw_only=True):
    """That a server is taken. It has the name of its Server, so two cannot have one server.

    With `waiting` it is a match in the line of its game, which is demand for servers; with
    `retires` it takes many servers at once, to remove them.
    """

    KIND: ClassVar = Kind(GROUP, VERSION, "Allocation", "allocations")
    CRD: ClassVar = CrdSpec(
        short_names=("gal",),
        columns=(
            Column("Game", ".spec.game"),
            Column("Match", ".spec.match"),
            Column("Holder", ".spec.holder", priority=1),
            Column("Retired", ".spec.retired", "boolean", priority=1),
            AGE,
        ),
    )

    # Each is written whole, or by patches of Edgewise: nobody asks who owns which field.
    spec: Annotated[AllocationSpec, as_one()]
    status: Annotated[AllocationStatus, as_one()] = field(default_factory=AllocationStatus)
