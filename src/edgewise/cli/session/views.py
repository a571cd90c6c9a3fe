"""Sessions as the command shows them, wherever they come from.

The views say nothing of Kubernetes beyond what they show, so that a session which a server
knows of can be shown in the same words as one that a kubeconfig leads to.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from edgewise.api.sessions import ClientStatus, PodPhase, Session, SessionTemplate
from edgewise.kube.conditions import Condition


class View(msgspec.Struct, rename="camel"):
    """camelCase in JSON, and always with all fields."""


class ClientView(View, kw_only=True):
    client: str
    connected: bool
    phase: str
    ready: bool
    # By a server: the cluster in which it sits.
    location: str | None = None
    until: str | None = None
    pods: dict[str, str] = {}
    endpoints: dict[str, dict[str, str]] = {}
    # One word for programs and a sentence for people, while it is kept waiting.
    reason: str = ""
    message: str = ""
    needs_token: bool = False
    # Pod template to the token that the gateway asks for; filled in only for who joins.
    tokens: dict[str, str] = {}

    @property
    def standing(self) -> str:
        """Its phase, and where."""
        return f"{self.phase} in {self.location}" if self.location else self.phase

    @property
    def urls(self) -> list[tuple[str, str]]:
        """(pod template/port, address) of everything that the client may reach."""
        return [
            (f"{pod_template}/{port}", url)
            for pod_template, ports in sorted(self.endpoints.items())
            for port, url in sorted(ports.items())
        ]


class PodView(View, kw_only=True):
    pod: str
    pod_template: str
    address: str
    clients: list[str]
    phase: str
    until: str | None = None


class ConditionView(View, kw_only=True):
    type: str
    status: str
    reason: str
    message: str
    since: str


class SessionView(View, kw_only=True):
    name: str
    namespace: str
    uid: str
    template: str | None
    created: str | None
    deleting: bool
    # Whether the operator has seen the session as it is written now.
    seen: bool
    clients: int
    ready: int
    disconnected: int
    # None by a server: its API does not show the clusters' pods.
    pods: int | None
    recoveries: int | None
    clients_by_id: dict[str, ClientView] = {}
    pods_by_name: dict[str, PodView] = {}
    conditions: list[ConditionView] = []

    @property
    def waiting(self) -> list[ClientView]:
        """The clients about which there is something to say."""
        return [client for client in self.clients_by_id.values() if client.message]

    def condition(self, type: str) -> ConditionView | None:
        return next((each for each in self.conditions if each.type == type), None)

    @property
    def trouble(self) -> str:
        """What the operator says is wrong; empty if nothing is."""
        degraded = self.condition("Degraded")
        return degraded.message if degraded is not None and degraded.status == "True" else ""


class TemplateView(View, kw_only=True):
    name: str
    namespace: str
    pod_templates: list[str]
    sessions: int
    # None by a server: warm pods are a matter of each cluster.
    warm: int | None
    created: str | None
    deleting: bool
    message: str = ""


def view_session(session: Session) -> SessionView:
    meta, status = session.metadata, session.status
    clients = {
        client: view_client(client, status.clients.get(client), session.spec.clients.get(client))
        for client in sorted(status.clients.keys() | session.spec.clients.keys())
    }
    pods = view_pods(session)
    return SessionView(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        template=session.spec.template_ref.name if session.spec.template_ref else None,
        created=meta.creation_timestamp,
        deleting=meta.deleting,
        seen=status.observed_generation >= meta.generation,
        clients=len(clients),
        ready=sum(client.ready for client in clients.values()),
        disconnected=sum(not client.connected for client in clients.values()),
        pods=len(pods),
        recoveries=status.recoveries,
        clients_by_id=clients,
        pods_by_name=pods,
        conditions=[view_condition(each) for each in status.conditions],
    )


def view_client(client: str, status: ClientStatus | None, entry: object) -> ClientView:
    """`entry` is what the session asks for; until the operator saw it there is no status."""
    connected = entry.get("connected", True) is True if isinstance(entry, dict) else entry is True
    if status is None:
        return ClientView(client=client, connected=connected, phase="Asked", ready=False)
    return ClientView(
        client=client,
        connected=connected,
        phase=status.phase if entry is not None else "Leaving",
        ready=status.ready and connected,
        until=status.until,
        pods=status.pods,
        endpoints=status.endpoints,
        reason=status.reason,
        message=status.message,
        needs_token=bool(status.tokens),
    )


def view_pods(session: Session) -> dict[str, PodView]:
    status = session.status
    sitting: dict[str, list[str]] = {}
    for client, record in sorted(status.clients.items()):
        for pod in record.pods.values():
            sitting.setdefault(pod, []).append(client)
    found = {}
    for revision, members in status.pods.items():
        made = status.revisions.get(revision)
        for pod, address in members.items():
            idle = status.idle.get(pod)
            busy = PodPhase.IN_USE if address else PodPhase.STARTING
            found[pod] = PodView(
                pod=pod,
                pod_template=made.pod_template if made is not None else "",
                address=address,
                clients=sitting.get(pod, []),
                phase=idle.phase if idle is not None else busy,
                until=idle.until if idle is not None else None,
            )
    return dict(sorted(found.items()))


def view_condition(condition: Condition) -> ConditionView:
    return ConditionView(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        since=condition.last_transition_time,
    )


def view_template(template: SessionTemplate) -> TemplateView:
    meta, status = template.metadata, template.status
    waiting = next((each for each in status.conditions if each.type == "InUse"), None)
    return TemplateView(
        name=meta.name,
        namespace=meta.namespace,
        pod_templates=[each.name for each in template.spec.pod_templates],
        sessions=status.sessions or 0,
        warm=status.warm or 0,
        created=meta.creation_timestamp,
        deleting=meta.deleting,
        message=waiting.message if waiting is not None and meta.deleting else "",
    )


def seconds_until(text: str | None, now: datetime) -> float | None:
    """How long until a moment in RFC 3339; None if it is none."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
