"""The clusters that are registered, each connected to while it is.

They come, change and go while the server runs. One whose kubeconfig cannot be used is still
shown, with its trouble.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from edgewise.api.clusters import KUBECONFIG_KEY, Cluster
from edgewise.api.secrets import SECRET_LABEL
from edgewise.clusters.access import access_in
from edgewise.clusters.registry import Registry
from edgewise.kube.bounds import MIB, Bounds
from edgewise.kube.client import Client
from edgewise.kube.errors import ConfigError
from edgewise.kube.kinds.core import Secret
from edgewise.kube.objects import Object
from edgewise.runtime.connected_cluster import ConnectedCluster, Health, Patience
from edgewise.runtime.metrics import Metrics

# A write that takes longer is not waited for; repair sees to it.
WRITE_SECONDS = 10.0
CONNECTIONS = 64

# A member that is hostile or broken shall not fill the memory of all. An object is as large as
# etcd lets it become, pages are as large as one object, and a Session of 2,000 clients has about
# 100,000 values.
BOUNDS = Bounds(object=4 * MIB, page=4 * MIB, whole=8 * MIB, together=12 * MIB, values=200_000)

_log = logging.getLogger(__name__)


class WantedConnection(msgspec.Struct, frozen=True):
    """What a connection depends on: when this changes, a new one is made."""

    kubeconfig: str  # a digest; empty for the hub itself
    problem: str = ""


class Connection:
    """A connected cluster. A domain asks its `link` for caches, at any time."""

    def __init__(self, name: str, client: Client, link: ConnectedCluster) -> None:
        self.name = name
        self.client = client
        self.link = link
        self._beside: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> bool:
        return self.link.ready

    @property
    def lost(self) -> bool:
        return self.link.health is Health.LOST

    def beside(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Do `work` for as long as the connection is there; answers how to stop earlier."""
        task = asyncio.create_task(work, name=f"beside {self.name}")
        self._beside.add(task)
        task.add_done_callback(self._done)
        return task.cancel

    def _done(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("what is done beside %s failed", self.name, exc_info=error)

    async def run(self) -> None:
        try:
            await self.link.run()
        finally:
            tasks = set(self._beside)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)


class _Open(msgspec.Struct, frozen=True):
    wanted: WantedConnection
    connection: Connection | None
    problem: str
    task: asyncio.Task[None]


class Connections:
    """`heaviest` says how many bytes a cache may hold, by the cluster's name and the kind."""

    def __init__(
        self,
        registry: Registry,
        *,
        patience: Patience | None = None,
        metrics: Metrics | None = None,
        heaviest: Callable[[str, type[Object]], int] | None = None,
    ) -> None:
        self._registry = registry
        self._metrics = metrics
        self._heaviest = heaviest
        self._patience = patience or Patience()
        self._open: dict[str, _Open] = {}
        self._changed = asyncio.Event()
        self._opened: list[Callable[[Connection], None]] = []
        self._closed: list[Callable[[Connection], None]] = []
        self._listeners: list[Callable[[str], None]] = []
        registry.clusters.subscribe(self._notice)
        registry.secrets.subscribe(self._notice_secret)

    def on_open(self, listener: Callable[[Connection], None]) -> None:
        """Call `listener` with each new connection, before its first list."""
        self._opened.append(listener)

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the name of each cluster that is connected to, or no longer."""
        self._listeners.append(listener)

    def on_close(self, listener: Callable[[Connection], None]) -> None:
        """Call `listener` with each connection that is given up."""
        self._closed.append(listener)

    def get(self, name: str) -> Connection | None:
        found = self._open.get(name)
        return found.connection if found else None

    def all(self) -> list[Connection]:
        return [each.connection for each in self._open.values() if each.connection is not None]

    def trouble(self, name: str) -> str:
        """What is wrong with a cluster, as the end of "it …"; empty if nothing is."""
        found = self._open.get(name)
        if found is None:
            return "is being connected to"
        return found.problem or (found.connection.link.trouble if found.connection else "")

    def since(self, name: str) -> datetime | None:
        """When a cluster that is not well was last heard; None if it is well, or never was."""
        found = self.get(name)
        return found.link.since if found is not None else None

    async def run(self) -> None:
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._bring_about(self._wanted())
        finally:
            await self._bring_about({})

    def _notice(self, old: Cluster | None, new: Cluster | None, _: bool) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._changed.set()

    def _notice_secret(self, _old: Secret | None, new: Secret | None, _: bool) -> None:
        if new is None or new.metadata.labels.get(SECRET_LABEL) == "kubeconfig":
            self._changed.set()

    def _wanted(self) -> dict[str, WantedConnection]:
        return {cluster.metadata.name: self._want(cluster) for cluster in self._registry.clusters}

    def _want(self, cluster: Cluster) -> WantedConnection:
        name = cluster.spec.kubeconfig_secret
        if not name:
            return WantedConnection("")
        secret = self._registry.secret(name)
        if secret is None:
            return WantedConnection(
                "", f"has no Secret {name} with the label {SECRET_LABEL}=kubeconfig"
            )
        content = secret.data.get(KUBECONFIG_KEY, b"")
        return WantedConnection(hashlib.sha256(content).hexdigest())

    async def _bring_about(self, wanted: dict[str, WantedConnection]) -> None:
        for name, known in list(self._open.items()):
            if wanted.get(name) != known.wanted:
                del self._open[name]
                if known.connection is not None:
                    for closed in self._closed:
                        closed(known.connection)
                known.task.cancel()
                await asyncio.wait({known.task})
                _log.info("%s is no longer connected", name)
                self._tell(name)
        for name, want in wanted.items():
            if name not in self._open:
                await self._connect(name, want)

    async def _connect(self, name: str, want: WantedConnection) -> None:
        stack = contextlib.AsyncExitStack()
        connection, problem = None, want.problem
        if not problem:
            try:
                connection = await stack.enter_async_context(self._connection(name, want))
            except ConfigError as error:
                _log.error("%s cannot be connected to: %s", name, error)
                problem = f"cannot be connected to: {error}"
            except Exception as error:
                # One cluster must not end the server for all the others. The text of what nobody
                # expected may hold a secret, and this is shown to everybody.
                _log.exception("%s cannot be connected to", name)
                problem = f"cannot be connected to ({type(error).__name__}): see the server's log"
        task = asyncio.create_task(_keep(connection, stack), name=f"cluster {name}")
        self._open[name] = _Open(want, connection, problem, task)
        if connection is not None:
            for opened in self._opened:
                opened(connection)
        self._tell(name)

    def _tell(self, name: str) -> None:
        for listener in self._listeners:
            listener(name)

    @contextlib.asynccontextmanager
    async def _connection(self, name: str, want: WantedConnection) -> AsyncIterator[Connection]:
        async with contextlib.AsyncExitStack() as stack:
            client = self._registry.client
            if want.kubeconfig:
                cluster = self._registry.cluster(name)
                named = cluster.spec.kubeconfig_secret if cluster else ""
                secret = self._registry.secret(named) if named else None
                if secret is None:
                    raise ConfigError("its Secret is gone")
                client = await stack.enter_async_context(
                    Client(
                        access_in(secret),
                        user_agent="edgewise-server",
                        connections=CONNECTIONS,
                        timeout=WRITE_SECONDS,
                        bounds=BOUNDS,
                    )
                )
            limit = self._heaviest
            link = ConnectedCluster(
                name,
                client,
                patience=self._patience,
                metrics=self._metrics,
                label=f"member/{name}",
                heaviest=partial(limit, name) if limit and want.kubeconfig else None,
            )
            yield Connection(name, client, link)


async def _keep(connection: Connection | None, stack: contextlib.AsyncExitStack) -> None:
    async with stack:
        if connection is not None:
            await connection.run()
        else:
            await asyncio.Event().wait()  # until it is wanted otherwise
