"""Sessions on a real API server: the controllers run as they do in the operator, and a few
lines play the part of the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import ClientStatus, Session, SessionTemplate
from edgewise.exposure.port_range import PortRange
from edgewise.exposure.publishing import Ack
from edgewise.exposure.route import Owner, Route
from edgewise.exposure.site import Site
from edgewise.kube.client import Client
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Object
from edgewise.runtime.manager import Election, Manager
from edgewise.sessions import names
from edgewise.sessions.controller import SessionController
from edgewise.sessions.indexes.indexes import Indexes
from edgewise.sessions.metrics import SessionMetrics
from edgewise.sessions.orders import ResetPod
from edgewise.sessions.pool.controller import TemplateController
from edgewise.testing.domain_stage import DomainStage, Kubelets
from edgewise.testing.eventually import eventually


class Gateways:
    def __init__(self) -> None:
        self.told: list[tuple[Owner, Sequence[Route]]] = []

    async def publish(self, owner: Owner, routes: Sequence[Route]) -> Ack:
        self.told.append((owner, routes))
        return Ack(acked={route.id for route in routes})


class Cleaners:
    async def clean(self, namespace: str, order: ResetPod) -> bool | None:
        return True


class Stage(DomainStage):
    """One namespace, and what people do there."""

    MADE = (Session, SessionTemplate)

    def __init__(self, client: Client, namespace: str, nodes: Kubelets) -> None:
        super().__init__(client, namespace)
        self.nodes = nodes
        self.gateways = Gateways()
        self.metrics = SessionMetrics()
        self.site = Site(
            seat_key=b"0123456789abcdef0123456789abcdef",
            public_url="http://edge.example",
            public_host="edge.example",
            ports=PortRange(20000, 29999),
        )

    def manager(self, *, election: Election | None = None) -> Manager:
        books = Indexes(self.site)
        sessions = SessionController(books, self.gateways, Cleaners(), metrics=self.metrics)
        templates = TemplateController(books, Cleaners(), metrics=self.metrics)
        return Manager(self.client, [sessions, templates], election=election)

    # People -------------------------------------------------------------------------

    async def template(self, name: str = "room", **spec: Any) -> None:
        spec.setdefault("podTemplates", [pod_template()])
        await self.make(SessionTemplate, name, spec)

    async def session(self, name: str = "s", *clients: str, **spec: Any) -> None:
        spec.setdefault("templateRef", {"name": "room"})
        if "podTemplates" in spec:
            del spec["templateRef"]
        spec["clients"] = {client: {"connected": True} for client in clients}
        await self.make(Session, name, spec)

    async def clients(self, session: str = "s", **clients: bool | None) -> None:
        wanted = {
            client: None if connected is None else {"connected": connected}
            for client, connected in clients.items()
        }
        await self.client.patch(
            Session, session, self.namespace, body={"spec": {"clients": wanted}}
        )

    async def delete(self, kind: type[Object], name: str) -> None:
        await self.client.delete(kind, name, self.namespace)

    # Looking ------------------------------------------------------------------------

    async def get(self, session: str = "s") -> Session:
        return await self.client.get(Session, session, self.namespace)

    async def record(self, client: str, session: str = "s") -> ClientStatus:
        return (await self.get(session)).status.clients.get(client, ClientStatus())

    async def ready(self, *clients: str, session: str = "s", within: float = 30.0) -> None:
        async def all_ready() -> bool:
            status = (await self.get(session)).status
            return all(
                client in status.clients and status.clients[client].ready for client in clients
            )

        await eventually(all_ready, within=within)

    async def pods(self) -> set[str]:
        found = await self.client.list(Pod, self.namespace, labels=names.POD_TEMPLATE)
        return {pod.metadata.name for pod in found.items if not pod.metadata.deleting}

    async def count(self, kind: type[Object]) -> int:
        namespace = self.namespace if kind.KIND.namespaced else None
        found = await self.client.list(kind, namespace)
        if kind is PortClaim:
            mine = f"{self.namespace}/"
            return sum(1 for each in found.items if each.spec.owner.startswith(mine))
        return len(found.items)

    async def nothing_left(self, *, within: float = 20.0) -> None:
        async def gone() -> None:
            for kind in (Pod, PortClaim, Lease):
                assert not await self.count(kind), f"{kind.__name__}s are left"

        await eventually(gone, within=within)


def pod_template(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "ports": [{"name": "http", "port": 8080}],
        "template": {"spec": {"containers": [{"name": "main", "image": "room:1"}]}},
        **fields,
    }
