"""Sessions: pods that belong to the clients of a session, and the template they follow.

A Session is written once for every join, loss and departure, so it is kept cheap to write:
the maps that grow with its clients are open and atomic. The API server spends most of its
time on a custom object in walking the nodes of it; checking two thousand clients against a
schema, or noting who owns each of their fields, would cost many times the write itself. What
those maps hold is checked by the admission webhook and by the types here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from edgewise.api.crd import Column, CrdSpec
from edgewise.api.exposure import Port, ShortLabel
from edgewise.api.schema import Rule, as_one, keyed_by, left_open, rules
from edgewise.kube.conditions import Condition
from edgewise.kube.objects import Kind, Object, Record

GROUP = "sessions.edgewise.dev"
VERSION = "v1alpha1"

DEFAULT_NODE_LOSS_SECONDS = 30
DEFAULT_READY_SECONDS = 60

Reuse = Literal["Never", "Session", "Template"]
Exposure = Literal["Gateway", "GatewayAPI", "NodePort", "HostPort", "LoadBalancer", "None"]

Label = Annotated[
    str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
Seconds = Annotated[int, Meta(ge=0, le=31_536_000)]

_SHORT_NAME = Rule(
    "!has(self.metadata) || size(self.metadata.name) <= 63",
    "metadata.name must have at most 63 characters: it becomes a label of the pods",
)


class Reset(Record):
    """How a pod is made clean before somebody else gets it."""

    RULES: ClassVar = (
        Rule(
            "has(self.httpPath) != has(self.restartContainer)",
            "reset needs either httpPath or restartContainer, not both",
        ),
    )

    http_path: Annotated[str, Meta(pattern=r"^/", max_length=1024)] | None = None
    """Asked by POST at the pod's own address; a 2xx answer means that the pod is clean."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """Where httpPath is asked; 0 is the first of the exposed ports."""
    restart_container: Label | None = None
    """A container to end and let restart; clean is when it is ready again."""
    command: Annotated[list[str], Meta(max_length=32)] = []
    """What ends the container from inside; by default a TERM signal to its process 1."""
    timeout_seconds: Annotated[int, Meta(ge=1, le=3600)] = 30
    """A pod that is not clean by then is deleted instead."""


class PodTemplate(Record):
    """One kind of pod that every client of a session is owed."""

    RULES: ClassVar = (
        Rule(
            "!has(self.ports) || self.ports.all(p, self.ports.exists_one(q, q.port == p.port && "
            "(q.protocol == 'UDP') == (p.protocol == 'UDP')))",
            "ports exposes the same port twice",
        ),
    )

    name: ShortLabel
    """Names the pods, and the client's endpoints in them."""
    max_clients: Annotated[int, Meta(ge=0, le=100_000)] = 1
    """How many clients one pod serves; 0: all clients of the session share one pod."""
    warm_pods: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """How many pods are kept ready before anyone asks. For a SessionTemplate only."""
    ports: Annotated[list[Port], keyed_by("name"), Meta(max_length=16)] = []
    """What is exposed; anything else in the pod stays unreachable from outside."""
    template: dict[str, Any] = {}
    """A PodTemplateSpec."""
    reset: Reset | None = None
    """Cleans a pod before it is reused; without it a pod is reused as it is."""
    service: bool = False
    """Whether each seat gets a Service: a stable name inside the cluster."""


class Resource(Record):
    """A further object that comes and goes with a session, or with all of a template."""

    name: ShortLabel
    """The object is named SESSION-NAME, or TEMPLATE---NAME, where each dash in this name is
    doubled. Where that has more than 52 characters, or a dot, a short hash is part of it."""
    scope: Literal["Session", "Template"] = "Session"
    """Session: made with the session, gone with it. Template: made when the first client of
    any session of the template joins, gone after the last one left."""
    manifest: dict[str, Any] = {}
    """A Deployment, StatefulSet, Service, ConfigMap or Job. Its selectors and pod labels are
    narrowed, so that two sessions never select each other's pods."""


class Workload(Record):
    """What runs for the clients, and for how long. Said once in a template, or inline."""

    pod_templates: Annotated[list[PodTemplate], keyed_by("name"), Meta(max_length=16)] = []
    """Each client gets a seat in a pod of each of these."""
    timeout_seconds: Seconds = 0
    """How long a client that lost its connection keeps its pods."""
    reutilize_timeout_seconds: Seconds = 0
    """How long a pod without clients waits for another one before it is deleted."""
    reuse: Reuse | None = None
    """Who may get an idle pod: nobody (Never), clients of the same session (Session, the
    default), or of any session of the template in the namespace (Template)."""
    exposure: Exposure | None = None
    """How clients reach their pods; Gateway is the default."""
    max_clients: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """How many clients a session may have; 0 is no limit."""
    max_sessions: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """How many sessions of this template a namespace may have; 0 is no limit."""
    node_loss_seconds: Seconds | None = None
    """How long to wait for a lost node to come back before its pods are replaced (30)."""
    ready_seconds: Annotated[int, Meta(ge=1, le=3600)] | None = None
    """How long a client waits for its pod to become ready before it gets another one (60)."""
    seat_tokens: bool = False
    """Whether the gateway asks for a token besides the unguessable path."""
    resources: Annotated[list[Resource], keyed_by("name"), Meta(max_length=32)] = []
    """Further objects that are bound to the session or to all sessions of the template."""


class SessionTemplateSpec(Workload):
    """The part of a session that does not change."""

    RULES: ClassVar = (
        Rule(
            "has(self.podTemplates) && size(self.podTemplates) > 0",
            "podTemplates must name at least one kind of pod",
            field_path=".podTemplates",
        ),
    )

    queue_seconds: Seconds = 0
    """How long a client may wait for a seat when every location is full; 0: it is refused."""


class SessionTemplateStatus(Record):
    """What the operator knows of a template."""

    observed_generation: int = 0
    next: int = 0
    """The number that the next warm pod gets; numbers are never given twice."""
    warm: int | None = None
    """Pods that are ready for whoever comes first."""
    sessions: int | None = None
    """Sessions that follow this template."""
    public_ports: int | None = None
    """Ports that the gateways of this cluster have for clients, of TCP and of UDP each; only for
    a template whose clients need some."""
    conditions: Annotated[list[Condition], keyed_by("type")] = []


class SessionTemplate(Object, kw_only=True):
    """The static part of sessions, stored once."""

    KIND: ClassVar = Kind(GROUP, VERSION, "SessionTemplate", "sessiontemplates")
    CRD: ClassVar = CrdSpec(
        short_names=("sesst",),
        columns=(
            Column("Sessions", ".status.sessions", "integer"),
            Column("Warm", ".status.warm", "integer"),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
    RULES: ClassVar = (_SHORT_NAME,)

    spec: SessionTemplateSpec
    status: SessionTemplateStatus = msgspec.field(default_factory=SessionTemplateStatus)


class TemplateRef(Record):
    """A SessionTemplate in the session's namespace."""

    name: Annotated[
        str,
        Meta(min_length=1, max_length=63),
        rules(
            Rule(
                "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
                "templateRef.name must be a name: small letters, digits, dashes and dots",
            )
        ),
    ]


class SessionSpec(Workload):
    """Who is there, and what they are owed: by reference to a template, or inline."""

    RULES: ClassVar = (
        Rule(
            "has(self.templateRef) != (has(self.podTemplates) && size(self.podTemplates) > 0)",
            "say either templateRef or podTemplates, and not both",
            field_path=".templateRef",
        ),
        Rule(
            "!has(self.templateRef) || !(has(self.timeoutSeconds) || "
            "has(self.reutilizeTimeoutSeconds) || has(self.reuse) || has(self.exposure) || "
            "has(self.maxClients) || has(self.maxSessions) || has(self.nodeLossSeconds) || "
            "has(self.readySeconds) || has(self.seatTokens) || has(self.resources))",
            "with templateRef, everything but clients is said by the template",
            field_path=".templateRef",
        ),
        Rule(
            "!has(self.reuse) || self.reuse != 'Template'",
            "reuse Template needs a templateRef: without it there is nobody to share with",
            field_path=".reuse",
        ),
        Rule(
            "!has(self.podTemplates) || "
            "self.podTemplates.all(t, !has(t.warmPods) || t.warmPods == 0)",
            "warmPods needs a templateRef: pods are kept warm for a template",
            field_path=".podTemplates",
        ),
    )

    template_ref: TemplateRef | None = None
    """The SessionTemplate to follow."""
    clients: Annotated[dict[str, Any], as_one()] = {}
    """Client id to {connected: bool}. True: present, and owed its pods. False: disconnected, but
    still holding them. Absent: left. For server-side apply the map is one value: a manager that
    applies it puts out the clients of all others. Use a merge patch for each client."""


class ClientPhase(StrEnum):
    """How a client stands. What was read may hold another word, of a newer operator."""

    REFUSED = "Refused"  # it was not let in
    STARTING = "Starting"
    READY = "Ready"
    NOT_READY = "NotReady"  # it has its pods, and one of them is not ready now
    RECOVERING = "Recovering"  # it lost a pod, and gets another
    DISCONNECTED = "Disconnected"  # its seats are kept for a while
    EXPIRED = "Expired"  # it stayed away for too long


class PodPhase(StrEnum):
    """How a pod of a session stands. Only the last two are written, for pods without clients."""

    STARTING = "Starting"
    IN_USE = "InUse"
    RESETTING = "Resetting"
    WAIT_FOR_REUSE = "WaitForReuse"


class Failures(Record):
    """Pods of one client that ended, crashed or never became ready, one after the other."""

    count: int = 0
    until: str | None = None
    """When the next one is tried."""
    revision: str = ""
    """What they were made from: an edited template is tried at once."""
    reason: str = ""
    message: str = ""


class ClientStatus(Record):
    """What one client has."""

    phase: str = ""
    ready: bool = False
    """Whether the client can connect to all of its endpoints now."""
    until: str | None = None
    """When a disconnected client loses its pods."""
    pods: dict[str, str] = {}
    """Pod template to the pod in which the client has its seat."""
    endpoints: dict[str, dict[str, str]] = {}
    """Pod template to port name to address. They stay the same when a pod is replaced."""
    tokens: dict[str, str] = {}
    """Pod template to the SHA-256 of the seat's token, where the template asks for tokens."""
    reason: str = ""
    """Why the client waits, as one word for programs: that of the kubelet or the API server where
    they have one (ImagePullBackOff, Unschedulable), else ours (PodsRefused, NotReady). Empty while
    all goes as it should."""
    message: str = ""
    """The same for people."""
    late: bool = False
    """Whether the client has waited for longer than readySeconds."""
    since: str | None = None
    """When the client began to wait. It stays while pods are exchanged."""
    due: str | None = None
    """When the client gets another pod, unless the one it has was ready by then."""
    failures: dict[str, Failures] = {}
    """Pod template to the pods of this client that failed, one after the other."""


class IdlePod(Record):
    """A pod that nobody is using."""

    phase: str = ""
    """Resetting or WaitForReuse."""
    until: str | None = None
    """When it is deleted."""
    restarts: int = 0
    """How often its container had restarted when the reset began."""


class Revision(Record):
    """What of a pod template its pods keep, however the template is edited meanwhile."""

    pod_template: str
    exposure: str
    ports: list[Port] = []


class Refusal(Record):
    """What the API server said to the last pod of a revision that it would not have."""

    count: int = 0
    """How often in a row."""
    at: str | None = None
    """When it was asked."""
    until: str | None = None
    """When it is asked again, unless room appears before."""
    most: int = 1
    """How many pods are asked for then."""
    message: str = ""


class SessionCounts(Record):
    # None and not 0, which would be left out of the columns.
    clients: int | None = None
    ready: int | None = None
    pods: int | None = None
    disconnected: int | None = None


class SessionStatus(Record):
    """The truth about seats: written as one, guarded by the resource version."""

    observed_generation: int = 0
    next: int = 0
    """The number that the next pod gets; numbers are never given twice."""
    clients: Annotated[dict[str, ClientStatus], as_one(), left_open()] = {}
    """What each client has: ready, phase, endpoints."""
    pods: Annotated[dict[str, dict[str, str]], as_one(), left_open()] = {}
    """Revision to pod to the pod's address, which is empty until the pod was ready once."""
    idle: Annotated[dict[str, IdlePod], as_one(), left_open()] = {}
    """Pods without clients, and what they wait for."""
    revisions: Annotated[dict[str, Revision], as_one(), left_open()] = {}
    """What the pods were made from."""
    refusals: Annotated[dict[str, Refusal], as_one(), left_open()] = {}
    """Revision to what the API server has against its pods."""
    recoveries: int = 0
    """How often clients were moved to another pod because theirs was lost."""
    counts: SessionCounts = msgspec.field(default_factory=SessionCounts)
    conditions: Annotated[list[Condition], keyed_by("type")] = []


class Session(Object, kw_only=True):
    """Clients that belong together, each with a seat in a pod of each template."""

    KIND: ClassVar = Kind(GROUP, VERSION, "Session", "sessions")
    CRD: ClassVar = CrdSpec(
        short_names=("sess",),
        columns=(
            Column("Template", ".spec.templateRef.name"),
            Column("Clients", ".status.counts.clients", "integer"),
            Column("Ready", ".status.counts.ready", "integer"),
            Column("Pods", ".status.counts.pods", "integer"),
            Column("Disconnected", ".status.counts.disconnected", "integer", priority=1),
            Column("Recoveries", ".status.recoveries", "integer", priority=1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
    RULES: ClassVar = (_SHORT_NAME,)

    spec: SessionSpec
    status: SessionStatus = msgspec.field(default_factory=SessionStatus)

    @classmethod
    def mended(cls, document: bytes) -> Session | None:
        """A status that somebody broke is done without: the plan finds the pods that are there,
        and seats the clients in them again."""
        parts = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
        parts.pop("status", None)
        return msgspec.json.decode(msgspec.json.encode(parts), type=cls)
