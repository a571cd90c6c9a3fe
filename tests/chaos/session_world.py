"""The world of sessions on a real API server.

The same scenarios as in memory: what people and nodes do is written down, and carried out by
the API server when the operators get their turn; afterwards the store is what it answers.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError, NotFound
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Node, Pod
from edgewise.kube.objects import Key, Kind, Object
from edgewise.workloads.children import BOUND_KINDS
from tests.unit.sessions.store import Raw, Store
from tests.unit.sessions.world import CutOff, Operator, World

MERGE = "application/merge-patch+json"
KINDS: tuple[type[Object], ...] = (
    Session,
    SessionTemplate,
    PortClaim,
    Lease,
    Pod,
    Node,
    *BOUND_KINDS,
)


class CuttingClient:
    """A client whose owner may be killed before or after any of its writes."""

    def __init__(self, client: Client, operator: RealOperator) -> None:
        self._client = client
        self._operator = operator

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in ("create", "patch", "apply", "replace", "request", "evict", "get", "list"):
            return found
        reading = name in ("get", "list")

        async def call(*args: Any, **kwargs: Any) -> Any:
            number = self._operator.before_request(reading=reading)
            try:
                return await found(*args, **kwargs)
            finally:
                self._operator.after_request(number)

        return call


class RealOperator(Operator):
    def __init__(self, world: RealWorld) -> None:
        self.real = world
        super().__init__(world)

    def _make_client(self) -> Any:
        return CuttingClient(self.real.client, self)

    def before_request(self, *, reading: bool) -> int:
        """Answers the number of the write; several may be on their way at once."""
        if self.dead:
            raise CutOff
        if reading:
            return 0
        self.count += 1
        self._die(self.count == self.cut_at and not self.cut_after)
        return self.count

    def after_request(self, number: int) -> None:
        self._die(self.dead or (number == self.cut_at and self.cut_after))

    def _die(self, now: bool) -> None:
        if now:
            self.dead = True
            raise CutOff

    def list(self) -> None:
        """It sees when it gets its turn."""

    async def see(self) -> None:
        await self.caches.refresh()


class Noted(Store):
    """Notes what is to be written; what is read is what the API server last answered."""

    def __init__(self, world: RealWorld) -> None:
        super().__init__(lambda: world.now)
        self.pending: list[tuple[str, Kind, Key, Any, str]] = []

    def create(self, kind: Kind, raw: Raw) -> Raw:
        meta = raw["metadata"]
        key = Key(meta.get("namespace", ""), meta["name"])
        self.pending.append(("POST", kind, key, raw, ""))
        return {**raw, "metadata": {**meta, "uid": "", "resourceVersion": ""}}

    def patch(self, kind: Kind, key: Key, body: Any, subresource: str = "") -> Raw:
        self.pending.append(("PATCH", kind, key, body, subresource))
        return {}

    def delete(self, kind: Kind, key: Key, options: Raw) -> Raw:
        self.pending.append(("DELETE", kind, key, options, ""))
        return {}

    def finish(self, kind: Kind, key: Key) -> None:
        self.pending.append(("DELETE", kind, key, {"gracePeriodSeconds": 0}, ""))


class RealWorld(World):
    def __init__(self, client: Client, namespace: str) -> None:
        super().__init__(namespace=namespace)
        self.client = client
        self.store = self.noted = Noted(self)
        # Nodes are the cluster's: every world has its own.
        self.node = f"{namespace}-1"

    def operator(self) -> Operator:
        return RealOperator(self)

    # Between the store and the API server -------------------------------------------

    async def flush(self) -> None:
        pending, self.noted.pending = self.noted.pending, []
        for method, kind, key, body, subresource in pending:
            with contextlib.suppress(NotFound):
                await self._send(method, kind, key, body, subresource)

    async def _send(self, method: str, kind: Kind, key: Key, body: Any, subresource: str) -> None:
        node = body.get("spec", {}).get("nodeName") if kind == Pod.KIND else None
        if method == "PATCH" and node:
            method, subresource = "POST", "binding"
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": key.name},
                "target": {"kind": "Node", "name": node},
            }
        collection = kind.path(key.namespace or None)
        path = collection if method == "POST" and not subresource else f"{collection}/{key.name}"
        await self.client.request(
            method,
            f"{path}/{subresource}" if subresource else path,
            body=msgspec.json.encode(body),
            content_type=MERGE if method == "PATCH" else "application/json",
        )

    async def look(self) -> None:
        """Make the store what the API server says."""
        await asyncio.gather(*(self._look_at(kind) for kind in KINDS))

    async def _look_at(self, kind: type[Object]) -> None:
        namespace = self.namespace if kind.KIND.namespaced else None
        content = await self.client.request("GET", kind.KIND.path(namespace))
        found = {}
        for raw in msgspec.json.decode(content)["items"]:
            raw |= {"apiVersion": kind.KIND.api_version, "kind": kind.KIND.kind}
            meta = raw["metadata"]
            found[Key(meta.get("namespace", ""), meta["name"])] = raw
        self.store.objects[kind.KIND] = found

    # Running ------------------------------------------------------------------------

    async def settle(self, *operators: Operator, rounds: int = 60) -> None:
        await self.flush()
        await self.look()
        for _ in range(rounds):
            before = self._versions()
            busy = 0
            for operator in operators:
                assert isinstance(operator, RealOperator)
                await operator.see()
                busy += await operator.work()
            await self.look()
            self.nodes_work()
            if self.noted.pending:
                await self.flush()
                await self.look()
            if not busy and before == self._versions():
                return
        raise AssertionError("the world does not come to rest")

    def _versions(self) -> dict[str, str]:
        return {
            raw["metadata"]["uid"]: raw["metadata"]["resourceVersion"]
            for objects in self.store.objects.values()
            for raw in objects.values()
        }

    async def clear(self) -> None:
        """Nobody else should meet what is left."""
        await self.look()
        for kind in (SessionTemplate, Session, Pod, Lease, PortClaim, *BOUND_KINDS):
            for key, raw in self.store.objects[kind.KIND].items():
                mine = kind.KIND.namespaced or raw["spec"].get("owner", "").startswith(
                    f"{self.namespace}/"
                )
                if mine:
                    with contextlib.suppress(KubeError):
                        await self._send(
                            "PATCH", kind.KIND, key, {"metadata": {"finalizers": None}}, ""
                        )
                    with contextlib.suppress(KubeError):
                        await self._send("DELETE", kind.KIND, key, {"gracePeriodSeconds": 0}, "")
