"""Game servers on a real API server: the controllers run as they do in the operator, under its
name, and a few lines play the part of the nodes."""

from __future__ import annotations

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
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Node, Pod, ServiceAccount
from edgewise.kube.objects import Object
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.manager import Election, Listen, Manager
from edgewise.testing.domain_stage import DomainStage, Kubelets
from edgewise.testing.eventually import eventually

RBAC = "rbac.authorization.k8s.io"
SIDECAR = "edgewise:test"
POD = {"containers": [{"name": "game", "image": "game:1"}]}


class Stage(DomainStage):
    """One namespace, and what people do there."""

    MADE = (Fleet, Server)
    FOLLOWING = (Allocation, Pod)

    def __init__(
        self, client: Client, operator: Client, namespace: str, kubelets: Kubelets
    ) -> None:
        super().__init__(client, namespace, operator=operator)
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

    # People -------------------------------------------------------------------------

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

    async def grant(self, user: str, *rules: dict[str, Any]) -> None:
        """Rights in this namespace, and nothing else anywhere."""
        meta = {"name": user.replace(":", "-"), "namespace": self.namespace}
        role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta}
        await self.client.apply({**role, "rules": list(rules)})
        await self.client.apply(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": meta,
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": meta["name"]},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
            }
        )

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


async def make_node(client: Client, name: str) -> None:
    await client.create(Node.named(name))
