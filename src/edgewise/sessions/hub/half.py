"""What sessions do in one replica of the server, without its HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from edgewise.api.sessions import Session, SessionTemplate
from edgewise.clusters.connections import Connections
from edgewise.clusters.registry import Registry
from edgewise.kube.objects import Object
from edgewise.runtime.tasks import Task
from edgewise.sessions.hub.bindings import Bindings
from edgewise.sessions.hub.duties.leader_loop import LeaderLoop
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.joining import Joining
from edgewise.sessions.hub.lifecycle import Lifecycle
from edgewise.sessions.hub.members import Members, heaviest
from edgewise.sessions.hub.metrics import show_hub
from edgewise.sessions.hub.presence import Presence
from edgewise.sessions.hub.records import Hub
from edgewise.sessions.hub.removals import Removals
from edgewise.sessions.hub.repair.parts import Repair
from edgewise.sessions.hub.repair.templates import TemplateRepair


class SessionsHalf:
    """`token_seconds` is how long a client's token lasts; `replica` tells replicas apart."""

    def __init__(
        self,
        registry: Registry,
        connections: Connections,
        *,
        token_seconds: int,
        replica: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.hub = Hub(registry.client, registry.namespace, link=registry.hub)
        self.members = Members(self.hub, connections)
        self.hub_view = HubView(self.hub, self.members, clock=clock)
        self.bindings = Bindings(self.hub, clock=clock)
        self.joining = Joining(self.hub_view, self.bindings)
        self.lifecycle = Lifecycle(self.hub_view)
        self.removals = Removals(self.hub, token_seconds=token_seconds, clock=clock)
        self.presence = Presence(self.hub, replica=replica)
        self._repair = Repair(self.hub_view, self.bindings)
        self._templates = TemplateRepair(self.hub_view)
        self._leader_loop = LeaderLoop(
            self.hub_view, self.joining, self.bindings, self.presence, clock=clock
        )

    async def prepare(self) -> None:
        await self.hub.prepare()

    def tasks(self) -> tuple[Task, ...]:
        """Of every replica."""
        return (Task("presence", self.presence.run),)

    def duties(self) -> tuple[Task, ...]:
        """Of the one that leads."""
        return (
            Task("repair of sessions", self._keep_repairing),
            Task("repair of templates", self._keep_templates),
            Task("clients", self._leader_loop.run),
        )

    def heaviest(self, cluster: str, kind: type[Object]) -> int | None:
        return heaviest(self.hub, cluster, kind) if kind in (Session, SessionTemplate) else None

    def show_metrics(self, registry: CollectorRegistry) -> None:
        show_hub(self.hub_view, registry)

    def close(self) -> None:
        """End all streams of events."""
        self.hub_view.changes.close()

    async def _keep_repairing(self) -> None:
        self._repair.add_all()
        await self._repair.workers.run()

    async def _keep_templates(self) -> None:
        self._templates.add_all()
        await self._templates.workers.run()
