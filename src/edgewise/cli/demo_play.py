"""The demo's acts in a session: clients come, are lost, return, lose their server, and leave."""

import asyncio
import time
from typing import Any

import aiohttp

from edgewise.api.sessions import ClientStatus, Session
from edgewise.cli.demo_objects import (
    NAMESPACE,
    POD_TEMPLATE,
    PORT_NAME,
    SESSION,
    session,
    template,
)
from edgewise.cli.demo_stage import Row, Stage
from edgewise.kube.client import Client
from edgewise.kube.core import Namespace, Pod
from edgewise.kube.objects import Key
from edgewise.local.errors import LocalError
from edgewise.local.images import PYTHON_IMAGE
from edgewise.runtime.awaiting import Waiting

PATIENCE = 90.0  # seconds for anything that the cluster has to do
ROOM = Key(NAMESPACE, SESSION)


class DemoError(LocalError):
    """What the demo wanted to show did not happen."""


class Play:
    """`real`: there are processes behind the pods, so clients can really connect."""

    def __init__(
        self,
        stage: Stage,
        client: Client,
        sessions: Waiting[Session],
        pods: Waiting[Pod],
        *,
        real: bool,
    ) -> None:
        self._stage = stage
        self._client = client
        self._sessions = sessions
        self._pods = pods
        self._real = real
        self._asked: dict[str, float] = {}
        self._took: dict[str, float] = {}

    async def run(self) -> None:
        # A proxy of the user's would not find a gateway that is on this machine.
        timeout = aiohttp.ClientTimeout(total=5)
        async with aiohttp.ClientSession(timeout=timeout) as self._http:
            await self._set_up()
            await self._three_come("ann", "bob", "cleo")
            await self._lost_and_back("ann")
            await self._loses_its_pod("bob")
            await self._leaves_and_is_followed("cleo", "dan")
            await self._clean_up()

    async def _set_up(self) -> None:
        await self._client.create(Namespace.named(NAMESPACE))
        await self._client.apply(template(PYTHON_IMAGE))
        await self._client.apply(session())

    async def _three_come(self, *names: str) -> None:
        self._stage.act(f"A session, and {len(names)} clients that join it")
        with self._stage.table() as show:
            for name in names:
                await self._say(name, {"connected": True})
            watching = asyncio.create_task(self._keep_showing(show))
            try:
                for name in names:
                    await self._until_ready(name)
            finally:
                watching.cancel()
            show(self._rows())
        for name in names:
            await self._expect(name, self._has(name).pods[POD_TEMPLATE])
            self._stage.say(f"{name} is at {self._url(name)}")
        if len({self._has(name).pods[POD_TEMPLATE] for name in names}) != len(names):
            raise DemoError("two clients were given the same pod")

    async def _lost_and_back(self, name: str) -> None:
        self._stage.act(f"{name} loses the connection, and comes back in time")
        pod, url = self._has(name).pods[POD_TEMPLATE], self._url(name)
        await self._say(name, {"connected": False})
        lost = await self._until(name, lambda has: has.phase == "WaitForReconnection")
        self._stage.say(f"lost: {pod} is kept for {name} until {lost.until}")
        await self._say(name, {"connected": True})
        await self._until_ready(name)
        if (self._has(name).pods[POD_TEMPLATE], self._url(name)) != (pod, url):
            raise DemoError(f"{name} came back to another pod or address")
        await self._expect(name, pod)
        self._stage.say(f"back after {self._took[name]:.2f} s: same pod, same address")

    async def _loses_its_pod(self, name: str) -> None:
        self._stage.act(f"The pod of {name} is killed")
        old, url = self._has(name).pods[POD_TEMPLATE], self._url(name)
        self._asked[name] = time.monotonic()
        await self._client.delete(Pod, old, NAMESPACE, grace_seconds=0)
        has = await self._until(name, lambda has: has.ready and has.pods[POD_TEMPLATE] != old)
        if self._url(name) != url:
            raise DemoError(f"the address of {name} changed with the pod")
        await self._expect(name, has.pods[POD_TEMPLATE])
        took = time.monotonic() - self._asked[name]
        self._stage.say(f"{has.pods[POD_TEMPLATE]} took over after {took:.1f} s, at {url}")

    async def _leaves_and_is_followed(self, name: str, successor: str) -> None:
        self._stage.act(f"{name} leaves, and {successor} gets the pod")
        pod = self._has(name).pods[POD_TEMPLATE]
        await self._say(name, None)
        await self._sessions.until(
            ROOM, lambda s: s is not None and name not in s.status.clients, f"{name} gone", PATIENCE
        )
        await self._say(successor, {"connected": True})
        await self._until_ready(successor)
        if self._has(successor).pods[POD_TEMPLATE] != pod:
            raise DemoError(f"{pod} was not reused")
        await self._expect(successor, pod)
        self._stage.say(f"{successor} was ready after {self._took[successor]:.2f} s, in {pod}")

    async def _clean_up(self) -> None:
        self._stage.act("The session is deleted, and all it made goes with it")
        began = time.monotonic()
        await self._client.delete(Session, SESSION, NAMESPACE)
        for pod in self._pods.cache.all(NAMESPACE):
            await self._pods.until(pod.key, lambda p: p is None, f"{pod.key} gone", PATIENCE)
        self._stage.say(f"no pod is left after {time.monotonic() - began:.1f} s")

    async def _say(self, name: str, presence: dict[str, Any] | None) -> None:
        """What an application does: one patch to the session."""
        self._asked[name] = time.monotonic()
        self._took.pop(name, None)
        body = {"spec": {"clients": {name: presence}}}
        await self._client.patch(Session, SESSION, NAMESPACE, body=body)

    async def _until_ready(self, name: str) -> None:
        await self._until(name, lambda has: has.ready)
        self._took[name] = time.monotonic() - self._asked[name]

    async def _until(self, name: str, holds: Any) -> ClientStatus:
        def look(seen: Session | None) -> bool:
            has = seen.status.clients.get(name) if seen is not None else None
            return has is not None and bool(holds(has))

        await self._sessions.until(ROOM, look, f"what {name} waits for", PATIENCE)
        return self._has(name)

    def _has(self, name: str) -> ClientStatus:
        seen = self._sessions.cache.get(ROOM)
        if seen is None or name not in seen.status.clients:
            raise DemoError(f"{name} is not in the session")
        return seen.status.clients[name]

    def _url(self, name: str) -> str:
        return self._has(name).endpoints[POD_TEMPLATE][PORT_NAME]

    async def _expect(self, name: str, pod: str) -> None:
        """A real request through the gateway; the answer says which pod it reached."""
        if not self._real:
            return
        url = self._url(name)
        try:
            async with self._http.get(url) as answer:
                who = await answer.text()
        except (OSError, aiohttp.ClientError) as error:
            raise DemoError(f"{url} did not answer: {error}") from error
        if answer.status != 200 or who != pod:
            raise DemoError(f"{url} should lead to {pod}, but answered {answer.status}: {who[:80]}")

    async def _keep_showing(self, show: Any) -> None:
        while True:
            show(self._rows())
            await asyncio.sleep(0.1)

    def _rows(self) -> list[Row]:
        seen = self._sessions.cache.get(ROOM)
        clients = seen.status.clients if seen is not None else {}
        return [
            Row(name, has.pods.get(POD_TEMPLATE, ""), has.phase, self._took.get(name))
            for name, has in sorted(clients.items())
        ]
