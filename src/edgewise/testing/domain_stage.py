"""The controllers of a domain on a real API server without nodes, whose part a few lines play.

A domain's own stage says which controllers run, and what people do with its kinds.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable
from typing import Any, ClassVar

import msgspec

from edgewise.kube.client import Client
from edgewise.kube.errors import Conflict, KubeError, NotFound
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Object
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.manager import Manager
from edgewise.testing.eventually import eventually

_addresses = itertools.count(1)


class Kubelets:
    """Bind pods to the nodes that are named, make them ready, and end them when deleted."""

    def __init__(
        self, client: Client, namespace: str, nodes: Iterable[str] = ("simulated",)
    ) -> None:
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
            await self.set_pod(name)

    async def _bind(self, name: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": next(self._nodes)},
        }
        path = Pod.KIND.path(self._namespace, name)
        await self._client.request("POST", f"{path}/binding", body=msgspec.json.encode(body))

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


class DomainStage:
    """One namespace, with the controllers of a domain and what people make there."""

    # What `clear` takes away: kinds that people make, and what only the operator may delete.
    MADE: ClassVar[tuple[type[Object], ...]] = ()
    FOLLOWING: ClassVar[tuple[type[Object], ...]] = (Pod,)

    def __init__(self, client: Client, namespace: str, *, operator: Client | None = None) -> None:
        self.client = client  # a person with all rights
        self._operator = operator or client
        self.namespace = namespace

    def manager(self, *_: Any, **options: Any) -> Manager:
        """The domain's controllers, not yet running."""
        raise NotImplementedError

    @contextlib.asynccontextmanager
    async def operator(self, **options: Any) -> AsyncIterator[Manager]:
        manager = self.manager(**options)
        running = asyncio.create_task(manager.run(signals=False))
        try:
            await eventually(lambda: manager.acting or running.done())
            yield manager
        finally:
            manager.stop()
            await asyncio.wait_for(running, 60)

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

    async def is_gone(self, kind: type[Object], name: str, *, within: float = 30.0) -> None:
        async def gone() -> bool:
            try:
                await self.client.get(kind, name, self.namespace)
            except NotFound:
                return True
            return False

        await eventually(gone, within=within)

    async def clear(self) -> None:
        """Nobody else should meet what is left."""
        for kind in self.MADE:
            for each in (await self.client.list(kind, self.namespace)).items:
                name = each.metadata.name
                with contextlib.suppress(NotFound):
                    await self.client.patch(
                        kind, name, self.namespace, body={"metadata": {"finalizers": None}}
                    )
                with contextlib.suppress(NotFound):
                    await self.client.delete(kind, name, self.namespace)
        for kind in self.FOLLOWING:
            for each in (await self._operator.list(kind, self.namespace)).items:
                with contextlib.suppress(NotFound):
                    await self._operator.delete(
                        kind, each.metadata.name, self.namespace, grace_seconds=0
                    )
