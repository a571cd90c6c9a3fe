"""Replicas of the server over the games of one namespace, and servers that stand for running ones.

There is no operator here: a server is Ready because the test says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import secrets
from collections.abc import AsyncIterator
from typing import Any

from edgewise.api.clusters import Cluster
from edgewise.api.games import (
    Allocation,
    Fleet,
    FleetSpec,
    GameAutoscaler,
    GameType,
    Server,
    ServerSpec,
)
from edgewise.api.installation import install
from edgewise.gameservers import names
from edgewise.gameservers.domain import GAMESERVERS
from edgewise.gameservers.hub.half import GamesHalf
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.kinds.core import Namespace
from edgewise.runtime.caching.cache import number as revision
from edgewise.server.http.app import HttpSettings, create_app
from edgewise.server.http.guard import Rates
from edgewise.server.http.serving import Listen, serving
from edgewise.server.identity.api_tokens import make_token, secret_of, token_id
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.identity.principal import Role
from edgewise.server.replica import Replica, Settings
from edgewise.server.routes.games.half import GAMES
from edgewise.testing.eventually import eventually
from edgewise.testing.fault_proxy import FaultProxy, Upstream
from edgewise.testing.hub_rig import QUICK

KINDS = (Cluster, Server, Fleet, GameType, GameAutoscaler, Allocation)
POD = {"containers": [{"name": "game", "image": "game"}]}
FAST = Rates(client=1e6, application=1e6, stranger=1e6)


class Running:
    """One replica, its way to the API server, and its address."""

    def __init__(self, replica: Replica, proxy: FaultProxy, url: str) -> None:
        self.replica = replica
        self.half: GamesHalf = replica.of(GAMES)
        self.proxy = proxy
        self.url = url
        self.stack = contextlib.AsyncExitStack()


class Stage:
    def __init__(self, direct: Client, upstream: Upstream, stack: contextlib.AsyncExitStack):
        self.direct = direct  # as the operator, past all proxies
        self.upstream = upstream
        self.namespace = f"games-{secrets.token_hex(4)}"
        self._stack = stack
        self.replicas: list[Running] = []

    async def add_replica(self, account: str = "") -> Running:
        """With all rights, or as an account that has its own."""
        proxy = await self._stack.enter_async_context(FaultProxy(self.upstream).running())
        access = as_program(proxy.access, names.SERVER_USER)
        if account:
            access.impersonation = (("Impersonate-User", account),)
        client = await self._stack.enter_async_context(Client(access, timeout=5.0, connections=128))
        settings = Settings(
            namespace=self.namespace, patience=QUICK, replica=f"r{len(self.replicas)}"
        )
        replica = Replica(client, settings, (GAMES,))
        await self._stack.enter_async_context(replica.running())
        app = create_app(replica, Authenticator(replica.credentials), HttpSettings(rates=FAST))
        port = await self._stack.enter_async_context(
            serving(app, Listen(port=0), at_end=replica.close)
        )
        running = Running(replica, proxy, f"http://127.0.0.1:{port}")
        self.replicas.append(running)
        await eventually(lambda: running.half.games.link.ready, within=20)
        return running

    async def add_token(self, role: Role = Role.APP, application: str = "arena") -> str:
        token, kept = make_token(role, application)
        await self.direct.create(secret_of(kept, self.namespace))
        for each in self.replicas:
            await eventually(
                lambda each=each: each.replica.credentials.api_token(token_id(token)) is not None
            )
        return token

    async def add_fleet(self, name: str = "chess", **spec: Any) -> None:
        fleet = FleetSpec(spec=ServerSpec(pod=POD), **spec)
        await self.direct.create(Fleet.named(name, self.namespace, spec=fleet))
        for each in self.replicas:
            await eventually(lambda each=each: each.half.games.game(name) is not None)

    async def add_server(
        self, name: str, fleet: str = "chess", *, node: str = "n1", **spec: Any
    ) -> Server:
        server = Server.named(name, self.namespace, spec=ServerSpec(pod=POD, **spec))
        server.metadata.labels = {"fleet": fleet, "server": name}
        await self.direct.create(server)
        return await self.say(name, state="Ready", node=node, address="10.0.0.1")

    async def say(self, name: str, **status: Any) -> Server:
        return await self.direct.patch(
            Server, name, self.namespace, body={"status": status}, subresource="status"
        )

    async def heard(self, server: Server) -> None:
        """Wait until every replica knows it as it is."""
        said = revision(server.metadata.resource_version)
        for each in self.replicas:
            await eventually(lambda each=each: each.half.games.servers.revision >= said)

    async def add_servers(self, number: int, fleet: str = "chess", nodes: int = 4) -> list[str]:
        names = [f"{fleet}-{each}" for each in range(number)]
        for begin in range(0, number, 50):
            await asyncio.gather(
                *(
                    self.add_server(name, fleet, node=f"n{place % nodes}")
                    for place, name in enumerate(names[begin : begin + 50])
                )
            )
        await self.seen(number, fleet)
        return names

    async def seen(self, idle: int, fleet: str = "chess") -> None:
        """Wait until every replica knows so many idle servers."""
        for each in self.replicas:
            await eventually(
                lambda each=each: each.half.idle.count(("fleet", fleet)) == idle, within=20
            )

    async def allocations(self) -> list[Allocation]:
        return (await self.direct.list(Allocation, self.namespace)).items


def as_program(access: Access, user: str) -> Access:
    """Only Edgewise's own programs may change Allocations, and no administrator."""
    found = copy.copy(access)
    found.impersonation = (("Impersonate-User", user), ("Impersonate-Group", "system:masters"))
    return found


@contextlib.asynccontextmanager
async def stage(direct: Client) -> AsyncIterator[Stage]:
    await install(direct, KINDS)
    for each in GAMESERVERS.cluster_objects:
        await direct.apply(each)
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(Upstream(direct.access).connected())
        direct = await stack.enter_async_context(
            Client(as_program(direct.access, names.OPERATOR_USER))
        )
        found = Stage(direct, upstream, stack)
        await direct.create(Namespace.named(found.namespace))
        yield found
