"""Sessions on a real API server: the controllers run as they do in the operator, and a few
lines play the part of the nodes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import ClientStatus, Session, SessionTemplate
from edgewise.exposure.publishing import Ack
from edgewise.exposure.route import Owner, Route
from edgewise.exposure.site import PortRange, Site
from edgewise.kube.client import Client
from edgewise.kube.errors import Conflict, KubeError, NotFound
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Object
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.manager import Election, Manager
from edgewise.sessions import names
from edgewise.sessions.controller import SessionController
from edgewise.sessions.indexes.indexes import Indexes
from edgewise.sessions.metrics import SessionMetrics
from edgewise.sessions.orders import ResetPod
from edgewise.sessions.pool.controller import TemplateController
from edgewise.testing.eventually import eventually

API = "sessions.edgewise.dev/v1alpha1"
_addresses = itertools.count(1)


class Gateways:
    def __init__(self) -> None:
        self.told: list[tuple[Owner, Sequence[Route]]] = []

    async def publish(self, owner: Owner, routes: Sequence[Route]) -> Ack:
        self.told.append((owner, routes))
        return Ack(acked={route.id for route in routes})


class Cleaners:
    async def clean(self, namespace: str, order: ResetPod) -> bool | None:
        return True


class Nodes:
    """Binds pods, makes them ready, and ends them when they are deleted."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        caches = SharedCaches(client)
        self._caches = caches
        self._pods: Cache[Pod] = caches.of(Pod, Selection(namespace=namespace))
        self._tasks: set[asyncio.Task[None]] = set()
        self.lazy = False

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[Nodes]:
        keeping = asyncio.create_task(self._caches.run())
        unsubscribe = self._pods.subscribe(self._changed)
        try:
            yield self
        finally:
            unsubscribe()
            if self._tasks:
                await asyncio.wait(self._tasks)
            keeping.cancel()
            await asyncio.wait((keeping,))

    def _changed(self, _: Pod | None, pod: Pod | None, __: bool) -> None:
        if pod is None or self.lazy:
            return
        task = asyncio.create_task(self._tend(pod))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tend(self, pod: Pod) -> None:
        """Until it is done: a kubelet does not forget a pod because the API server restarts."""
        for _ in range(100):
            try:
                await self._tend_once(pod)
            except (NotFound, Conflict):
                return
            except KubeError:
                await asyncio.sleep(0.2)
            else:
                return

    async def _tend_once(self, pod: Pod) -> None:
        name = pod.metadata.name
        if pod.metadata.deleting:
            await self._client.delete(
                Pod, name, self._namespace, grace_seconds=0, uid=pod.metadata.uid
            )
        elif not pod.node_name:
            await self._bind(name)
        elif not pod.status.pod_ip:
            await self.set_pod(name, ready=True)

    async def _bind(self, name: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": "simulated"},
        }
        path = Pod.KIND.path(self._namespace, name)
        await self._client.request("POST", f"{path}/binding", body=msgspec.json.encode(body))

    async def set_pod(self, name: str, *, ready: bool, phase: str = "Running") -> None:
        number = next(_addresses)
        status = {
            "phase": phase,
            "podIP": f"10.9.{number >> 8 & 255}.{number & 255}",
            "podIPs": [{"ip": f"10.9.{number >> 8 & 255}.{number & 255}"}],
            "hostIP": "192.0.2.1",
            "conditions": [{"type": "Ready", "status": str(ready)}],
        }
        await self._client.patch(
            Pod, name, self._namespace, body={"status": status}, subresource="status"
        )


class Stage:
    """One namespace, and what people do there."""

    def __init__(self, client: Client, namespace: str, nodes: Nodes) -> None:
        self.client = client
        self.namespace = namespace
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

    @contextlib.asynccontextmanager
    async def operator(self, **options: Any) -> AsyncIterator[Manager]:
        manager = self.manager(**options)
        running = asyncio.create_task(manager.run(signals=False))
        try:
            await eventually(lambda: manager.acting or running.done(), within=20)
            yield manager
        finally:
            manager.stop()
            await asyncio.wait_for(running, 30)

    # People -------------------------------------------------------------------------

    async def template(self, name: str = "room", **spec: Any) -> None:
        spec.setdefault("podTemplates", [pod_template()])
        await self._apply("SessionTemplate", name, spec)

    async def session(self, name: str = "s", *clients: str, **spec: Any) -> None:
        spec.setdefault("templateRef", {"name": "room"})
        if "podTemplates" in spec:
            del spec["templateRef"]
        spec["clients"] = {client: {"connected": True} for client in clients}
        await self._apply("Session", name, spec)

    async def _apply(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        await self.client.apply(
            {
                "apiVersion": API,
                "kind": kind,
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": spec,
            },
            field_manager="somebody",
        )

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

    async def ready(self, *clients: str, session: str = "s", within: float = 15.0) -> None:
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

    async def clear(self) -> None:
        """Nobody else should meet what is left."""
        for kind in (Session, SessionTemplate):
            for each in (await self.client.list(kind, self.namespace)).items:
                name = each.metadata.name
                with contextlib.suppress(NotFound):
                    await self.client.patch(
                        kind, name, self.namespace, body={"metadata": {"finalizers": None}}
                    )
                with contextlib.suppress(NotFound):
                    await self.client.delete(kind, name, self.namespace)
        for pod in (await self.client.list(Pod, self.namespace)).items:
            with contextlib.suppress(NotFound):
                await self.client.delete(Pod, pod.metadata.name, self.namespace, grace_seconds=0)


def pod_template(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "ports": [{"name": "http", "port": 8080}],
        "template": {"spec": {"containers": [{"name": "main", "image": "room:1"}]}},
        **fields,
    }
