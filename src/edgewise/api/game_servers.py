"""One game server: the `Server` of `games.edgewise.dev`, and what all its kinds share.

Import it from `edgewise.api.games`, which has all kinds of the group.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, field

from edgewise.api.crd import Column, CrdSpec
from edgewise.api.durations import Duration
from edgewise.api.exposure import ShortLabel
from edgewise.api.schema import PRESERVE, Rule, as_one, keyed_by
from edgewise.kube.conditions import Condition
from edgewise.kube.objects import Kind, Object, Record

GROUP = "games.edgewise.dev"
VERSION = "v1alpha1"

SIDECAR = "edgewise-sidecar"
SIDECAR_PORT = 8080
DEFAULT_TIMEOUT = "40m"
DEFAULT_NODE_LOSS_SECONDS = 30
# Names become parts of others: a pod's is a host name and a label, of 63 characters.
SERVER_NAME = 59
FLEET_NAME = 50
GAME_NAME = 40

AGE = Column("Age", ".metadata.creationTimestamp", "date")


def short_name(most: int) -> Rule:
    return Rule(
        f"!has(self.metadata) || size(self.metadata.name) <= {most} "
        "&& !self.metadata.name.contains('.')",
        f"metadata.name must have at most {most} characters and no dot: "
        "it becomes part of the name of a pod",
    )


class ServerState(StrEnum):
    """How a server stands. What was read may hold another word, of a newer operator."""

    PENDING = "Pending"  # its pod has no node yet
    STARTING = "Starting"
    READY = "Ready"  # for whoever allocates it
    RESERVED = "Reserved"  # by the game itself, for a while
    ALLOCATED = "Allocated"
    DRAINING = "Draining"  # asked to end
    SHUTDOWN = "Shutdown"  # it ended as it should
    UNHEALTHY = "Unhealthy"  # it crashed, was lost, or does not answer any more


class ReadyBy(StrEnum):
    POD = "Pod"  # when Kubernetes says that the pod is ready
    SDK = "SDK"  # when the game says so


class PortPolicy(StrEnum):
    DYNAMIC = "Dynamic"  # a port of the node, from the range of the operator
    STATIC = "Static"  # the port of the node that is given
    PASSTHROUGH = "Passthrough"  # as Dynamic, and the container listens at the same number
    NONE = "None"  # only the address of the pod


class PortProtocol(StrEnum):
    UDP = "UDP"
    TCP = "TCP"
    BOTH = "TCPUDP"


class Idle(StrEnum):
    """What happens to a server that nobody has when it is to go."""

    ASK = "Ask"  # the game is asked as it is when it has players
    ALLOW = "Allow"  # it may be deleted at once


class Operation(StrEnum):
    """What a person wants of one server."""

    NONE = "None"
    MAINTAIN = "Maintain"  # it is not allocated
    RETIRE = "Retire"  # it is asked to end, and replaced
    KILL = "Kill"  # it is ended without being asked


class AgePriority(StrEnum):
    OLDEST_FIRST = "oldest_first"
    NEWEST_FIRST = "newest_first"


class Scheduling(StrEnum):
    PACKED = "Packed"
    DISTRIBUTED = "Distributed"


class StrategyType(StrEnum):
    ROLLING_UPDATE = "RollingUpdate"
    RECREATE = "Recreate"


# What rules have to see of a PodSpec; all else of it stays open.
_CONTAINERS = {
    "type": "array",
    "maxItems": 32,
    "items": {
        "type": "object",
        PRESERVE: True,
        "properties": {
            "name": {"type": "string", "maxLength": 63},
            "ports": {
                "type": "array",
                "maxItems": 64,
                "items": {
                    "type": "object",
                    PRESERVE: True,
                    "properties": {"containerPort": {"type": "integer"}},
                },
            },
        },
    },
}
PodSpec = Annotated[
    dict[str, Any],
    Meta(
        extra_json_schema={
            "properties": {
                "hostNetwork": {"type": "boolean"},
                "restartPolicy": {"type": "string", "maxLength": 16},
                "containers": _CONTAINERS,
                "initContainers": _CONTAINERS,
            }
        }
    ),
]

LabelValues = Annotated[dict[str, Annotated[str, Meta(max_length=63)]], Meta(max_length=64)]
AnnotationValues = Annotated[dict[str, Annotated[str, Meta(max_length=4096)]], Meta(max_length=64)]


class PodMetadata(Record):
    labels: LabelValues = {}
    annotations: AnnotationValues = {}


class GamePort(Record, kw_only=True):
    """A port of the game that players reach."""

    RULES: ClassVar = (
        Rule(
            "(self.policy == 'Static') == has(self.hostPort)",
            "hostPort is for policy Static, which needs it",
            field_path=".hostPort",
        ),
        Rule(
            "has(self.containerPort) || self.policy == 'Passthrough'",
            "containerPort is missing: only with policy Passthrough it is chosen",
            field_path=".containerPort",
        ),
    )

    name: ShortLabel
    container_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    """Where the container listens; with Passthrough it is the port of the node, which the
    game finds in PORT_<NAME>."""
    protocol: PortProtocol = PortProtocol.UDP
    policy: PortPolicy = PortPolicy.DYNAMIC
    host_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    """The port of the node, with policy Static."""


class Health(Record):
    """How often the game has to say that it is well."""

    period: Duration = "5s"
    failures: Annotated[int, Meta(ge=1, le=1000)] = 3
    """So many periods without a word make a server Unhealthy."""
    initial_delay: Duration = "5s"
    """From the start of the game on, before the first period."""


class Deletion(Record):
    idle: Idle = Idle.ASK
    """What happens to a server that is not allocated."""
    stabilization: Duration = "0s"
    """For how long the game must have allowed its deletion without a break."""


class Sidecar(Record):
    port: Annotated[int, Meta(ge=1, le=65535)] = SIDECAR_PORT
    """Where the SDK is found, on the loopback address of the pod."""


class ServerSpec(Record, kw_only=True):
    """One game server."""

    RULES: ClassVar = (
        Rule(
            "has(self.pod.containers) && size(self.pod.containers) > 0",
            "pod.containers must have at least one container",
            field_path=".pod",
        ),
        Rule(
            "!has(self.pod.hostNetwork) || !self.pod.hostNetwork",
            "pod.hostNetwork would open the SDK of the sidecar to everybody who reaches the node: "
            "use ports",
            field_path=".pod",
        ),
        Rule(
            f"!has(self.pod.containers) || self.pod.containers.all(c, !has(c.name) || "
            f"c.name != '{SIDECAR}')",
            f"pod.containers: {SIDECAR} is the name of the sidecar, choose another one",
            field_path=".pod",
        ),
        Rule(
            f"!has(self.pod.initContainers) || self.pod.initContainers.all(c, !has(c.name) || "
            f"c.name != '{SIDECAR}')",
            f"pod.initContainers: {SIDECAR} is the name of the sidecar, choose another one",
            field_path=".pod",
        ),
        Rule(
            "!has(self.pod.containers) || self.pod.containers.all(c, !has(c.ports) || "
            "c.ports.all(p, !has(p.containerPort) || p.containerPort != self.sidecar.port))",
            "pod.containers: a containerPort is the sidecar's own, choose another sidecar.port",
            field_path=".pod",
        ),
        Rule(
            "!has(self.ports) || self.ports.all(p, (!has(p.containerPort) || p.containerPort != "
            "self.sidecar.port) && (!has(p.hostPort) || p.policy != 'Passthrough' || "
            "p.hostPort != self.sidecar.port))",
            "ports: a containerPort is the sidecar's own, choose another sidecar.port",
            field_path=".ports",
        ),
    )

    pod: PodSpec
    """A PodSpec. Its restartPolicy is Never unless it says otherwise."""
    pod_metadata: PodMetadata = field(default_factory=PodMetadata)
    """Further labels and annotations of the pod."""
    timeout: Duration = DEFAULT_TIMEOUT
    """How long a game that is asked to end may go on."""
    allow_force_delete: bool = False
    """Whether the operator deletes the pod without asking the game."""
    ready: ReadyBy = ReadyBy.POD
    """When the server is ready for players."""
    ports: Annotated[list[GamePort], keyed_by("name"), Meta(max_length=16)] = []
    health: Health | None = None
    """Without it the game is watched from the first time on that it says it is well."""
    deletion: Deletion = field(default_factory=Deletion)
    acknowledge: Duration = "0s"
    """How long the game has to acknowledge an allocation; 0s: it need not."""
    operation: Operation = Operation.NONE
    deletion_priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0
    """A shrinking fleet removes servers with a higher number first."""
    sidecar: Sidecar = field(default_factory=Sidecar)
    node_loss_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] = DEFAULT_NODE_LOSS_SECONDS
    """How long a node may be silent before its servers count as lost."""


class ServerPort(Record):
    """Where players reach a port of a server."""

    name: str
    port: int
    protocol: str = ""


class Allowed(Record):
    """What the game says about its deletion."""

    value: bool | None = None
    since: str | None = None


class ShutdownReason(StrEnum):
    """Why a server is asked to end."""

    NAMESPACE_DELETED = "NamespaceDeleted"
    DELETED = "Deleted"
    KILLED = "Killed"
    RETIRED = "Retired"
    GAME_SHUTDOWN = "GameShutdown"
    UNHEALTHY = "Unhealthy"
    NODE_LOST = "NodeLost"
    NODE_TAINTED = "NodeTainted"
    DISRUPTED = "Disrupted"
    NODE_CORDONED = "NodeCordoned"


class ShutdownAsked(Record):
    """Why the game is asked to end, and when it is ended."""

    why: str = ""
    since: str | None = None
    deadline: str | None = None


class GameSaid(Record):
    """What else the game has said by its SDK. Written by the operator for the sidecar."""

    pod: str = ""
    """The uid of the pod that said it: what another one said does not count any more."""
    ready: bool | None = None
    healthy: bool | None = None
    """False: the game missed to say that it is well."""
    shutdown: bool | None = None
    """The game wants to end."""
    allocated: bool | None = None
    """The game took itself."""
    reserved_until: str | None = None
    released: str = ""
    """The uid of the Allocation that the game has ended by being ready again."""
    acknowledged: str = ""
    """The uid of the Allocation that the game has acknowledged."""
    players: int | None = None


class Failures(Record):
    """Pods of one server, or servers of one fleet, that failed one after the other."""

    count: int = 0
    until: str | None = None
    """When the next one is tried."""
    version: str = ""
    message: str = ""


class ServerStatus(Record):
    observed_generation: int = 0
    state: str = ""
    since: str | None = None
    """Since when it is in this state."""
    address: str = ""
    """Of its node where a port of the node leads to it, else of its pod."""
    ports: list[ServerPort] = []
    node: str = ""
    version: str = ""
    allowed: Allowed | None = None
    shutdown: ShutdownAsked | None = None
    game: GameSaid | None = None
    failures: Failures | None = None
    conditions: Annotated[list[Condition], keyed_by("type")] = []


class Server(Object, kw_only=True):
    """One game server: a pod that is protected until its game allows its deletion."""

    KIND: ClassVar = Kind(GROUP, VERSION, "Server", "servers")
    CRD: ClassVar = CrdSpec(
        short_names=("gsv",),
        columns=(
            Column("State", ".status.state"),
            Column("Address", ".status.address"),
            Column("Ports", ".status.ports[*].port"),
            Column("Node", ".status.node", priority=1),
            Column("Version", ".status.version", priority=1),
            Column("Players", ".status.game.players", "integer", priority=1),
            AGE,
        ),
    )
    RULES: ClassVar = (short_name(SERVER_NAME),)

    spec: ServerSpec
    # Only programs of Edgewise write it, by patches: nobody asks who owns which field.
    status: Annotated[ServerStatus, as_one()] = field(default_factory=ServerStatus)

    @classmethod
    def mended(cls, document: bytes) -> Server | None:
        """A status that somebody broke is written again from what is there."""
        parts = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
        parts.pop("status", None)
        return msgspec.json.decode(msgspec.json.encode(parts), type=cls)
