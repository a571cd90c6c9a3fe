"""Game servers on a real API server: the controllers run as they do in the operator, under its
name, and a few lines play the part of the nodes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Any

import msgspec

from edgewise.api.games import Allocation, AllocationSpec, Fleet, Server
from edgewise.gameservers import names
from edgewise.gameservers.fleet.controller import FleetController
from edgewise.gameservers.sdk.handlers import SdkHandlers
from edgewise.gameservers.sdk.tokens import PodTokens, published_keys
from edgewise.gameservers.server.controller import ServerController
from edgewise.gameservers.server.settings import GamePorts, Settings
from edgewise.kube.client import Client
from edgewise.kube.errors import Conflict, KubeError, NotFound
from edgewise.kube.kinds.core import Node, Pod, ServiceAccount
from edgewise.kube.objects import Object
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.manager import Election, Listen, Manager
from edgewise.testing.eventually import eventually

SIDECAR = "edgewise:test"
POD = {"containers": [{"name": "game", "image": "game:1"}]}
_addresses = itertools.count(1)


class Kubelets:
    """Bind pods to the nodes that are named, make them ready, and end them when deleted."""

    def __init__(self, client: Client, namespace: str, nodes: Iterable[str]) -> None:
        self._client = client
        self._namespace = namespace
        self._nodes = itertools.cycle(nodes)
        self._caches = SharedCaches(client)
        self._pods = self._caches.of(Pod, Selection(namespace=namespace))
        self._tasks: set[asyncio.Task[None]] = set()
        self.lazy = False

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[Kubelets]:
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
        for _ in range(50):
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
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"kind": "Node", "name": next(self._nodes)},
            }
            path = Pod.KIND.path(self._namespace, name)
            await self._client.request("POST", f"{path}/binding", body=msgspec.json.encode(body))
        elif not pod.status.pod_ip:
            await self.set_pod(name)

    async def set_pod(self, name: str, *, ready: bool = True, phase: str = "Running") -> None:
        number = next(_addresses)
        address = f"10.9.{number >> 8 & 255}.{number & 255}"
        status = {
            "phase": phase,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "hostIP": "192.0.2.1",
            "conditions": [{"type": "Ready", "status": str(ready)}],
        }
        await self._client.patch(
            Pod, name, self._namespace, body={"status": status}, subresource="status"
        )


class Stage:
    """One namespace, and what people do there."""

    def __init__(
        self, client: Client, operator: Client, namespace: str, kubelets: Kubelets
    ) -> None:
        self.client = client  # a person with all rights
        self._operator = operator
        self.namespace = namespace
        self.kubelets = kubelets
        self.settings = Settings(
            sidecar_image=SIDECAR, operator_url="http://127.0.0.1:1", ports=GamePorts(7000, 7099)
        )

    def manager(self, *, election: Election | None = None, listen: int = 0) -> Manager:
        controllers = [ServerController(self.settings), FleetController()]
        caches = SharedCaches(self._operator)
        sdk = SdkHandlers(
            self._operator,
            PodTokens(names.AUDIENCE, partial(published_keys, self._operator)),
            servers=caches.of(Server),
            pods=caches.of(Pod, Selection(labels=names.PROTECTED)),
            allocations=caches.of(Allocation),
        )
        return Manager(
            self._operator,
            controllers,
            election=election,
            caches=caches,
            listen=Listen(port=listen) if listen else None,
            handlers=sdk.handlers(),
        )

    async def token(self, server: str, *, audience: str = names.AUDIENCE) -> str:
        """The token that the kubelet gives the sidecar of a server."""
        return await self.token_of(names.pod_of(server), audience=audience)

    async def token_of(
        self, name: str, *, audience: str = names.AUDIENCE, namespace: str = ""
    ) -> str:
        namespace = namespace or self.namespace
        pod = await self.client.get(Pod, name, namespace)
        bound = {"kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [audience],
                "expirationSeconds": 600,
                "boundObjectRef": {"apiVersion": "v1", **bound},
            },
        }
        path = f"{ServiceAccount.KIND.path(namespace, 'default')}/token"
        answer = await self.client.request("POST", path, body=msgspec.json.encode(body))
        token: str = msgspec.json.decode(answer)["status"]["token"]
        return token

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

    async def make(self, kind: type[Object], name: str, spec: dict[str, Any]) -> None:
        await self.client.apply(
            {
                "apiVersion": kind.KIND.api_version,
                "kind": kind.KIND.kind,
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": spec,
            },
            field_manager="somebody",
        )

    async def server(self, name: str = "one", **spec: Any) -> None:
        await self.make(Server, name, {"pod": POD, **spec})

    async def fleet(self, replicas: int, name: str = "arena", **spec: Any) -> None:
        inner = {"pod": POD, **spec.pop("server", {})}
        scaling = {"replicas": replicas, **spec.pop("scaling", {})}
        await self.make(Fleet, name, {"scaling": scaling, "spec": inner, **spec})

    async def allocate(self, name: str) -> Allocation:
        server = await self.get(name)
        spec = AllocationSpec(
            server_uid=server.metadata.uid,
            match="m",
            fleet=server.metadata.labels.get(names.FLEET, ""),
        )
        return await self._operator.create(Allocation.named(name, self.namespace, spec=spec))

    async def say(self, name: str, **words: Any) -> None:
        """What the operator writes when the game of a server has said it."""
        pod = await self.pod(name)
        status: dict[str, Any] = {"game": {"pod": pod.metadata.uid, **words}}
        if "allowed" in words:
            del status["game"]["allowed"]
            status["allowed"] = {"value": words["allowed"], "since": "2020-01-01T00:00:00Z"}
        await self._operator.patch(
            Server, name, self.namespace, body={"status": status}, subresource="status"
        )

    async def delete(self, kind: type[Object], name: str) -> None:
        await self.client.delete(kind, name, self.namespace)

    # Looking ------------------------------------------------------------------------

    async def get(self, name: str = "one") -> Server:
        return await self.client.get(Server, name, self.namespace)

    async def pod(self, name: str = "one") -> Pod:
        return await self.client.get(Pod, names.pod_of(name), self.namespace)

    async def servers(self, state: str = "") -> list[Server]:
        found = (await self.client.list(Server, self.namespace)).items
        return [each for each in found if not state or each.status.state == state]

    async def becomes(self, state: str, name: str = "one", *, within: float = 15.0) -> Server:
        async def there() -> None:
            found = await self.get(name)
            assert found.status.state == state, found.status

        await eventually(there, within=within, not_yet=(NotFound,))
        return await self.get(name)

    async def counts(self, state: str, number: int, *, within: float = 20.0) -> None:
        async def there() -> None:
            found = await self.servers()
            states = [each.status.state for each in found if not each.metadata.deleting]
            assert states == [state] * number

        await eventually(there, within=within)

    async def is_gone(self, kind: type[Object], name: str, *, within: float = 15.0) -> None:
        async def gone() -> bool:
            try:
                await self.client.get(kind, name, self.namespace)
            except NotFound:
                return True
            return False

        await eventually(gone, within=within)

    async def clear(self) -> None:
        """Nobody else should meet what is left."""
        for kind in (Fleet, Server):
            for each in (await self.client.list(kind, self.namespace)).items:
                name = each.metadata.name
                with contextlib.suppress(NotFound):
                    await self.client.patch(
                        kind, name, self.namespace, body={"metadata": {"finalizers": None}}
                    )
                with contextlib.suppress(NotFound):
                    await self.client.delete(kind, name, self.namespace)
        for kind in (Allocation, Pod):
            for each in (await self._operator.list(kind, self.namespace)).items:
                with contextlib.suppress(NotFound):
                    await self._operator.delete(
                        kind, each.metadata.name, self.namespace, grace_seconds=0
                    )


async def make_node(client: Client, name: str) -> None:
    await client.create(Node.named(name))
