"""The member clusters that are registered, each connected to and mirrored while it is.

Members come, change and go while the server runs. A member whose kubeconfig cannot be used
is still a location, with its trouble shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Callable

import msgspec

from edgewise.api.fleet import KUBECONFIG_KEY, SECRET_LABEL, MemberCluster
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.client import Client
from edgewise.kube.core import Secret
from edgewise.kube.errors import ConfigError, Forbidden, KubeError, NotFound
from edgewise.kube.objects import Key
from edgewise.runtime.cache import Cache
from edgewise.runtime.selection import Selection
from edgewise.server.hub import Hub
from edgewise.server.member_access import access_in
from edgewise.server.mirror import Health, Mirror, Patience

# A write that takes longer is not waited for; repair sees to it.
WRITE_SECONDS = 10.0
CONNECTIONS = 64
# As the operator of a member keeps it; a key that was changed is noticed within this time.
SEAT_KEY_SECRET = "edgewise-seat-key"  # noqa: S105 - the name of it
SEAT_KEY = "key"
SEAT_KEY_SECONDS = 60.0

_log = logging.getLogger(__name__)


class Wanted(msgspec.Struct, frozen=True):
    """What a connection depends on: when this changes, a new one is made."""

    namespace: str
    operator_namespace: str
    kubeconfig: str  # a digest; empty for the hub itself
    problem: str = ""


class Member:
    """A connected member cluster."""

    def __init__(self, name: str, wanted: Wanted, client: Client, mirror: Mirror) -> None:
        self.name = name
        self.namespace = wanted.namespace
        self.seat_key: bytes | None = None
        self._listeners: list[Callable[[], None]] = []
        self._operator_namespace = wanted.operator_namespace
        self.client = client
        self.mirror = mirror
        here = Selection(namespace=wanted.namespace)
        self.sessions: Cache[Session] = mirror.cache(Session, here)
        self.templates: Cache[SessionTemplate] = mirror.cache(SessionTemplate, here)

    def session(self, name: str) -> Session | None:
        return self.sessions.get(Key(self.namespace, name))

    def template(self, name: str) -> SessionTemplate | None:
        return self.templates.get(Key(self.namespace, name))

    @property
    def ready(self) -> bool:
        return self.mirror.ready

    @property
    def lost(self) -> bool:
        return self.mirror.health is Health.LOST

    async def run(self) -> None:
        """Mirror the cluster, and fetch its key once for each time it is there."""
        fetching = asyncio.create_task(self._fetch_seat_key())
        try:
            await self.mirror.run()
        finally:
            fetching.cancel()
            await asyncio.wait({fetching})

    def on_seat_key(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever there is another key."""
        self._listeners.append(listener)

    def _use_seat_key(self, key: bytes | None) -> None:
        if key != self.seat_key:
            self.seat_key = key
            for listener in self._listeners:
                listener()

    async def _fetch_seat_key(self) -> None:
        while True:
            await self.mirror.wait_ready()
            try:
                secret = await self.client.get(Secret, SEAT_KEY_SECRET, self._operator_namespace)
                self._use_seat_key(secret.data.get(SEAT_KEY))
            except (NotFound, Forbidden):
                # Without it, clients of templates that ask for tokens get none from here.
                self._use_seat_key(None)
            except KubeError as error:
                _log.debug("the seat key of %s cannot be read: %s", self.name, error)
            await asyncio.sleep(SEAT_KEY_SECONDS)


class _Connection(msgspec.Struct, frozen=True):
    wanted: Wanted
    member: Member | None
    problem: str
    task: asyncio.Task[None]


class Members:
    def __init__(
        self,
        hub: Hub,
        *,
        patience: Patience | None = None,
    ) -> None:
        self._hub = hub
        self._patience = patience or Patience()
        self._open: dict[str, _Connection] = {}
        self._changed = asyncio.Event()
        self._opened: list[Callable[[Member], None]] = []
        hub.clusters.subscribe(self._notice)
        hub.secrets.subscribe(self._notice_secret)

    def on_open(self, listener: Callable[[Member], None]) -> None:
        """Call `listener` with each new connection, before its first list."""
        self._opened.append(listener)

    def get(self, name: str) -> Member | None:
        connection = self._open.get(name)
        return connection.member if connection else None

    def all(self) -> list[Member]:
        return [each.member for each in self._open.values() if each.member is not None]

    def trouble(self, name: str) -> str:
        """What is wrong with a location, as the end of "it …"; empty if nothing is."""
        connection = self._open.get(name)
        if connection is None:
            return "is being connected to"
        return connection.problem or (connection.member.mirror.trouble if connection.member else "")

    async def run(self) -> None:
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._bring_about(self._wanted())
        finally:
            await self._bring_about({})

    def _notice(self, old: MemberCluster | None, new: MemberCluster | None, _: bool) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._changed.set()

    def _notice_secret(self, _old: Secret | None, new: Secret | None, _: bool) -> None:
        if new is None or new.metadata.labels.get(SECRET_LABEL) == "kubeconfig":
            self._changed.set()

    def _wanted(self) -> dict[str, Wanted]:
        return {cluster.metadata.name: self._want(cluster) for cluster in self._hub.clusters}

    def _want(self, cluster: MemberCluster) -> Wanted:
        namespace = cluster.spec.namespace or self._hub.namespace
        operator = cluster.spec.operator_namespace
        name = cluster.spec.kubeconfig_secret
        if not name:
            return Wanted(namespace, operator, "")
        secret = self._secret(name)
        if secret is None:
            return Wanted(
                namespace,
                operator,
                "",
                f"has no Secret {name} with the label {SECRET_LABEL}=kubeconfig",
            )
        content = secret.data.get(KUBECONFIG_KEY, b"")
        return Wanted(namespace, operator, hashlib.sha256(content).hexdigest())

    def _secret(self, name: str) -> Secret | None:
        return self._hub.secrets.get(Key(self._hub.namespace, name))

    async def _bring_about(self, wanted: dict[str, Wanted]) -> None:
        for name, connection in list(self._open.items()):
            if wanted.get(name) != connection.wanted:
                del self._open[name]
                connection.task.cancel()
                await asyncio.wait({connection.task})
                _log.info("%s is no longer connected", name)
        for name, want in wanted.items():
            if name not in self._open:
                await self._connect(name, want)

    async def _connect(self, name: str, want: Wanted) -> None:
        stack = contextlib.AsyncExitStack()
        member, problem = None, want.problem
        if not problem:
            try:
                member = await stack.enter_async_context(self._member(name, want))
            except ConfigError as error:
                _log.error("%s cannot be connected to: %s", name, error)
                problem = f"cannot be connected to: {error}"
            except Exception as error:
                # One member must not end the server for all the others. The text of what nobody
                # expected may hold a secret, and this is shown to everybody.
                _log.exception("%s cannot be connected to", name)
                problem = f"cannot be connected to ({type(error).__name__}): see the server's log"
        task = asyncio.create_task(_keep(member, stack), name=f"member {name}")
        self._open[name] = _Connection(want, member, problem, task)
        if member is not None:
            for listener in self._opened:
                listener(member)

    @contextlib.asynccontextmanager
    async def _member(self, name: str, want: Wanted) -> AsyncIterator[Member]:
        async with contextlib.AsyncExitStack() as stack:
            client = self._hub.client
            if want.kubeconfig:
                cluster = self._hub.cluster(name)
                secret = self._secret(cluster.spec.kubeconfig_secret) if cluster else None
                if secret is None:
                    raise ConfigError("its Secret is gone")
                client = await stack.enter_async_context(
                    Client(
                        access_in(secret),
                        user_agent="edgewise-server",
                        connections=CONNECTIONS,
                        timeout=WRITE_SECONDS,
                    )
                )
            mirror = Mirror(name, client, patience=self._patience)
            yield Member(name, want, client, mirror)


async def _keep(member: Member | None, stack: contextlib.AsyncExitStack) -> None:
    async with stack:
        if member is not None:
            await member.run()
        else:
            await asyncio.Event().wait()  # until it is wanted otherwise
