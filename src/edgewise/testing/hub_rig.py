"""A hub for tests and members that are namespaces of one real API server.

Each of them is reached through a fault proxy of its own, so each can be cut off, fall silent
or lose answers by itself. In the members a stand-in for the session controllers says of every
connected client that it is ready, unless it is told not to.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import yaml

from edgewise.api.clusters import KUBECONFIG_KEY, Cluster, ClusterSpec
from edgewise.api.global_sessions import ClientBinding, GlobalSession, Location, LocationSpec
from edgewise.api.secrets import SECRET_LABEL
from edgewise.api.sessions import (
    ClientPhase,
    PodTemplate,
    Session,
    SessionTemplate,
    SessionTemplateSpec,
)
from edgewise.exposure.seats import seat_token, token_hash
from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError
from edgewise.kube.kinds.core import Namespace, Secret
from edgewise.runtime.connected_cluster import Patience
from edgewise.runtime.errors import Unavailable
from edgewise.server.http.app import HttpSettings, create_app
from edgewise.server.http.serving import Listen, serving
from edgewise.server.hub_half import Halves
from edgewise.server.identity.api_tokens import make_token, secret_of
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.identity.principal import Role
from edgewise.server.replica import Settings
from edgewise.server.routes.sessions.half import SESSIONS
from edgewise.testing.eventually import eventually
from edgewise.testing.fault_proxy import FaultProxy, Upstream
from edgewise.testing.sessions_replica import SessionsReplica

T = TypeVar("T")

# Everything happens on one machine, so silence means something sooner.
QUICK = Patience(probe_every=0.2, probe_timeout=2.0, suspect_after=2.5, lost_after=5.0)
KINDS = (GlobalSession, ClientBinding, Location, Cluster, Session, SessionTemplate)


async def patiently(call: Callable[[], Awaitable[T]], within: float = 20.0) -> T:
    """Like the SDK: who is asked to come back later does."""
    deadline = asyncio.get_running_loop().time() + within
    while True:
        try:
            return await call()
        except Unavailable:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.05)


class StandIn:
    """Plays the session controllers of one namespace."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self.holding_back = False  # nobody becomes ready while this is so
        self.seat_key = b""  # with one, seats have tokens
        self.refusing: set[str] = set()  # clients that will not be had
        self.failing: dict[str, Any] = {}  # what is said of everybody instead of being ready

    async def look_again(self) -> None:
        """After it was told something else: serve everybody by that."""
        for session in (await self._client.list(Session, self._namespace)).items:
            await self._serve(session)

    async def run(self) -> None:
        while True:
            with contextlib.suppress(KubeError):
                listing = await self._client.list(Session, self._namespace)
                for session in listing.items:
                    await self._serve(session)
                async for change in self._client.watch(
                    Session, self._namespace, resource_version=listing.resource_version
                ):
                    if change.type in ("ADDED", "MODIFIED"):
                        await self._serve(change.object)
            await asyncio.sleep(0.05)

    async def _serve(self, session: Session) -> None:
        clients = {client: self._status(session, client) for client in session.spec.clients}
        connected = [
            client
            for client, entry in session.spec.clients.items()
            if isinstance(entry, dict) and entry.get("connected")
        ]
        if self.holding_back or clients == msgspec.to_builtins(session.status.clients):
            return
        gone = dict.fromkeys(session.status.clients.keys() - clients.keys())
        with contextlib.suppress(KubeError):
            await self._client.patch(
                Session,
                session.metadata.name,
                self._namespace,
                subresource="status",
                body={
                    "status": {
                        "observedGeneration": session.metadata.generation,
                        "clients": {**clients, **gone},
                        "counts": {
                            "clients": len(clients),
                            "ready": 0 if self.failing else len(connected),
                            "disconnected": len(clients) - len(connected),
                        },
                    }
                },
            )

    def _status(self, session: Session, client: str) -> dict[str, Any]:
        if client in self.refusing:
            return {"phase": ClientPhase.REFUSED, "message": "there is no room"}
        entry = session.spec.clients[client]
        if not (isinstance(entry, dict) and entry.get("connected")):
            return {"phase": ClientPhase.DISCONNECTED}
        if self.failing:
            return {"phase": ClientPhase.STARTING, **self.failing}
        seat = f"{session.metadata.name}-{client}"
        url = f"http://{self._name}.test/s/{seat}/web/"
        status: dict[str, Any] = {
            "phase": ClientPhase.READY,
            "ready": True,
            "endpoints": {"demo": {"web": url}},
        }
        if self.seat_key:
            status["tokens"] = {"demo": token_hash(seat_token(self.seat_key, seat))}
        return status


class RigMember:
    def __init__(self, name: str, namespace: str, proxy: FaultProxy, stand_in: StandIn) -> None:
        self.name = name
        self.namespace = namespace
        self.proxy = proxy
        self.stand_in = stand_in

    def cut(self) -> None:
        """Gone for everybody: connections break, new ones are cut."""
        self.proxy.refusing = True
        self.proxy.cut_all()

    def heal(self) -> None:
        self.proxy.refusing = False


class HubRig:
    def __init__(self, direct: Client, upstream: Upstream, stack: contextlib.AsyncExitStack):
        self.direct = direct  # past all proxies
        self.upstream = upstream
        self.namespace = f"hub-{secrets.token_hex(4)}"
        self.members: dict[str, RigMember] = {}
        self.hub_proxies: list[FaultProxy] = []
        self._stack = stack

    async def set_up(self) -> None:
        await self.direct.create(Namespace.named(self.namespace))

    async def add_member(self, name: str, *, region: str = "", **spec: Any) -> RigMember:
        namespace = f"{name}-{secrets.token_hex(4)}"
        await self.direct.create(Namespace.named(namespace))
        proxy = await self._stack.enter_async_context(FaultProxy(self.upstream).running())
        stand_in = StandIn(self.direct, namespace, name)
        task = asyncio.create_task(stand_in.run())
        self._stack.push_async_callback(_end, task)
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": proxy.access.server}}],
            "users": [],
            "contexts": [{"name": name, "context": {"cluster": name}}],
        }
        secret = Secret.named(
            f"{name}-kubeconfig",
            self.namespace,
            data={KUBECONFIG_KEY: yaml.safe_dump(kubeconfig).encode()},
        )
        secret.metadata.labels = {SECRET_LABEL: "kubeconfig"}
        await self.direct.create(secret)
        connected = ClusterSpec(kubeconfig_secret=f"{name}-kubeconfig", region=region)
        await self.direct.create(Cluster.named(name, self.namespace, spec=connected))
        location = LocationSpec(
            cluster=name, namespace=namespace, operator_namespace=namespace, **spec
        )
        await self.direct.create(Location.named(name, self.namespace, spec=location))
        member = self.members[name] = RigMember(name, namespace, proxy, stand_in)
        return member

    async def add_template(self, name: str = "demo", **spec: Any) -> None:
        fields: dict[str, Any] = {"timeout_seconds": 30, **spec}
        template = SessionTemplateSpec(pod_templates=[PodTemplate(name="demo")], **fields)
        await self.direct.create(SessionTemplate.named(name, self.namespace, spec=template))

    async def add_replica(self, halves: Halves = (SESSIONS,), **settings: Any) -> SessionsReplica:
        """A replica with its own way to the hub, ready when this returns."""
        proxy = await self._stack.enter_async_context(FaultProxy(self.upstream).running())
        self.hub_proxies.append(proxy)
        client = await self._stack.enter_async_context(Client(proxy.access, timeout=5.0))
        wanted = Settings(namespace=self.namespace, patience=QUICK, **settings)
        replica = SessionsReplica(client, wanted, halves)
        await self._stack.enter_async_context(replica.running())
        await eventually(lambda: self.settled(replica), within=20)
        return replica

    async def add_server(self, replica: SessionsReplica, **settings: Any) -> str:
        """The HTTP API of a replica, on loopback; answers its URL."""
        app = create_app(replica, Authenticator(replica.credentials), HttpSettings(**settings))
        port = await self._stack.enter_async_context(
            serving(app, Listen(port=0), at_end=replica.close)
        )
        return f"http://127.0.0.1:{port}"

    async def add_token(self, role: Role, application: str, **options: Any) -> str:
        token, kept = make_token(role, application, **options)
        await self.direct.create(secret_of(kept, self.namespace))
        return token

    def settled(self, replica: SessionsReplica) -> bool:
        """Whether every member that can be reached is connected to."""
        return all(
            (member := replica.members.get(name)) is not None and member.ready
            for name, rigged in self.members.items()
            if not rigged.proxy.refusing
        )

    # The truth, past all proxies and caches ---------------------------------------------

    async def bindings(self) -> dict[str, ClientBinding]:
        listing = await self.direct.list(ClientBinding, self.namespace)
        return {binding.spec.client: binding for binding in listing.items}

    async def seats(self, session: str) -> dict[str, dict[str, Any]]:
        """Member to what its Session says of the clients; a member without it is missing."""
        found = {}
        for name, member in self.members.items():
            listing = await self.direct.list(Session, member.namespace)
            for each in listing.items:
                if each.metadata.name == session:
                    found[name] = each.spec.clients
        return found

    async def sessions_in(self, member: str) -> list[str]:
        listing = await self.direct.list(Session, self.members[member].namespace)
        return sorted(session.metadata.name for session in listing.items)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


@contextlib.asynccontextmanager
async def hub_rig(direct: Client) -> AsyncIterator[HubRig]:
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(Upstream(direct.access).connected())
        rig = HubRig(direct, upstream, stack)
        await rig.set_up()
        yield rig
