"""One real cluster with operator and gateway, and clients that really connect."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from edgewise.api.installation import install
from edgewise.api.sessions import ClientStatus, Session, SessionTemplate
from edgewise.domain import all_kinds
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.kube.objects import Key
from edgewise.local.clusters import LocalCluster
from edgewise.local.platform import Platform, running_platform
from edgewise.operator import DOMAINS
from edgewise.runtime.awaiting import Waiting, watching
from edgewise.sessions import names
from edgewise.testing.clusters import temporary_cluster
from tests.e2e.sessions import workloads
from tests.e2e.sessions.workloads import NAMESPACE

SHARES = "rooms"

PATIENCE = 60.0


class Rooms:
    """What an application does with sessions, and what its clients see."""

    def __init__(self, cluster: LocalCluster, platform: Platform, client: Client) -> None:
        self.cluster = cluster
        self.platform = platform
        self.client = client
        self.sessions: Waiting[Session]
        self.pods: Waiting[Pod]
        self.templates: Waiting[SessionTemplate]
        self.http: aiohttp.ClientSession

    async def make(self, name: str, *pod_templates: dict[str, Any], **spec: Any) -> None:
        """A template and a session of the same name."""
        await self.client.apply(workloads.template(name, *pod_templates, **spec))
        await self.client.apply(workloads.session(name, name))

    async def say(self, session: str, clients: dict[str, bool | None]) -> None:
        """Joined (True), lost (False) or left (None)."""
        said = {who: None if here is None else {"connected": here} for who, here in clients.items()}
        await self.client.patch(Session, session, NAMESPACE, body={"spec": {"clients": said}})

    async def join(self, session: str, *clients: str) -> list[ClientStatus]:
        await self.say(session, dict.fromkeys(clients, True))
        return [await self.until(session, client, lambda has: has.ready) for client in clients]

    async def leave(self, session: str, *clients: str) -> None:
        await self.say(session, dict.fromkeys(clients))
        for client in clients:
            await self.sessions.until(
                Key(NAMESPACE, session),
                lambda seen, gone=client: seen is not None and gone not in seen.status.clients,
                f"{client} gone from {session}",
                PATIENCE,
            )

    async def until(
        self, session: str, client: str, holds: Callable[[ClientStatus], object]
    ) -> ClientStatus:
        def look(seen: Session | None) -> bool:
            has = seen.status.clients.get(client) if seen is not None else None
            return has is not None and bool(holds(has))

        what = f"what {client} of {session} waits for"
        seen = await self.sessions.until(Key(NAMESPACE, session), look, what, PATIENCE)
        assert seen is not None
        return seen.status.clients[client]

    async def ask(self, url: str, path: str = "", **options: Any) -> dict[str, Any]:
        """What the pod behind an endpoint says of itself."""
        async with self.http.get(url + path, **options) as answer:
            assert answer.status == 200, (answer.status, await answer.text())
            found: dict[str, Any] = await answer.json(content_type=None)
            return found

    async def status(self, url: str, **options: Any) -> int:
        async with self.http.get(url, **options) as answer:
            return answer.status

    async def kill(self, pod: str) -> None:
        await self.client.delete(Pod, pod, NAMESPACE, grace_seconds=0)

    async def recovered(self, session: str, client: str, lost: str) -> ClientStatus:
        return await self.until(
            session, client, lambda has: has.ready and lost not in has.pods.values()
        )

    def pods_of(self, session: str) -> list[str]:
        """Pods that were made for this session."""
        return [
            pod.metadata.name
            for pod in self.pods.cache.all(NAMESPACE)
            if pod.metadata.labels.get(names.SESSION) == session
        ]

    def pods_of_template(self, template: str) -> list[str]:
        """Pods that belong to no session alone."""
        return [
            pod.metadata.name
            for pod in self.pods.cache.all(NAMESPACE)
            if pod.metadata.labels.get(names.TEMPLATE) == template
        ]

    async def idle(self, session: str, pod: str) -> None:
        """Return when the pod is clean and waits for somebody."""

        def waits(seen: Session | None) -> bool:
            has = seen.status.idle.get(pod) if seen is not None else None
            return has is not None and has.phase == "WaitForReuse"

        await self.sessions.until(Key(NAMESPACE, session), waits, f"{pod} clean", PATIENCE)

    async def on_the_shelf(self, pod: str) -> bool:
        """Whether the pod is clean and waits for whichever session of its template asks first."""
        try:
            lease = await self.client.get(Lease, pod, NAMESPACE)
        except NotFound:
            return False
        return not lease.spec.holder_identity

    async def remove(self, session: str) -> None:
        """Delete a session, and see it gone."""
        await self.client.delete(Session, session, NAMESPACE)
        key = Key(NAMESPACE, session)
        await self.sessions.until(key, lambda seen: seen is None, f"{session} gone", PATIENCE)

    async def delete(self, name: str) -> None:
        """A session, and the template of the same name. Pods may still be ending."""
        await self.client.delete(Session, name, NAMESPACE)
        await self.client.delete(SessionTemplate, name, NAMESPACE)


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    with temporary_cluster("rooms", nodes=2) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def rooms(cluster: LocalCluster) -> AsyncIterator[Rooms]:
    async with cluster.client() as client:
        await install(client, all_kinds(DOMAINS))
        await client.create(Namespace.named(NAMESPACE))
        async with (
            running_platform(cluster) as platform,
            watching(client, Session, Pod, SessionTemplate) as waits,
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True),
                timeout=aiohttp.ClientTimeout(total=10),
            ) as http,
        ):
            made = Rooms(cluster, platform, client)
            made.sessions, made.pods, made.templates = waits
            made.http = http
            yield made
