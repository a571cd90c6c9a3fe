"""How long a healthy client waits for its next pod while others of its session are in trouble.

Each round measures a bare pod, a recovery without any trouble, and one beside each kind: the quota
is used up and others wait for room; a neighbour's container crashes again and again; a neighbour's
image cannot be had. What is called trouble has shown in the neighbour's status before the
healthy client loses its pod.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import aiohttp

from edgewise.api.sessions import ClientStatus, Session
from edgewise.bench.sessions.join import JoinBench, Tell
from edgewise.bench.sessions.objects import FRAGILE_SERVER, NAMESPACE, pod_spec, session, template
from edgewise.bench.summary import ratio, summary
from edgewise.kube.client import Client, Patch
from edgewise.kube.errors import AlreadyExists
from edgewise.kube.kinds.core import Namespace, Pod, ResourceQuota
from edgewise.kube.objects import Key

Holds = Callable[[ClientStatus], bool]
Beside = Callable[[], contextlib.AbstractAsyncContextManager[None]]

SESSION = "trouble"
QUOTA = "bench"
POKE_SECONDS = 0.1
MISSING_IMAGE = "edgewise.local/not-there:1"
IN_TROUBLE_WITHIN = 90.0
# After so many pods a crash is no accident any more, and the next pod is waited for.
PODS_IN_A_ROW = 3


class TroubleBench(JoinBench):
    def __init__(self, client: Client, image: str, tell: Tell) -> None:
        super().__init__(client, image, tell)
        self._spec = pod_spec(image, FRAGILE_SERVER)

    async def _prepare(self) -> None:
        with contextlib.suppress(AlreadyExists):
            await self._client.create(Namespace.named(NAMESPACE))
        await self._client.apply(template(SESSION, self._image, pod=self._spec))
        await self._client.apply(session(SESSION, SESSION))

    async def _round(self, moment: float) -> None:
        self._number += 1
        client = f"c{self._number}"
        await self._wait_for(moment)
        bare = await self._timed("bare", self._bare)
        await self._client.delete(Pod, bare, NAMESPACE, grace_seconds=0)
        pod = await self._join(SESSION, client)
        kinds: dict[str, Beside] = {
            "calm": contextlib.nullcontext,
            "quota": self._quota_used_up,
            "crash": self._crashing_neighbour,
            "image": self._neighbour_without_image,
        }
        for kind, beside in kinds.items():
            async with beside():
                await self._wait_for(moment)
                pod = await self._timed(kind, partial(self._recover, SESSION, client, pod))
        await self._leave(SESSION, client)

    # Trouble ------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _quota_used_up(self) -> AsyncIterator[None]:
        waiting = [f"late{self._number}a", f"late{self._number}b"]
        pods = len((await self._client.list(Pod, NAMESPACE)).items)
        manifest = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": QUOTA, "namespace": NAMESPACE},
            "spec": {"hard": {"pods": str(pods)}},
        }
        await self._client.apply(manifest)
        await self._until_counted(pods)
        try:
            for client in waiting:
                await self._come(client)
            for client in waiting:
                await self._until(client, lambda has: has.reason == "PodsRefused", "is refused")
            yield
        finally:
            for client in waiting:
                await self._leave(SESSION, client)
            await self._client.delete(ResourceQuota, QUOTA, NAMESPACE)

    async def _until_counted(self, pods: int) -> None:
        """The controller manager has counted the pods: before that, the quota lets all in."""
        async with asyncio.timeout(IN_TROUBLE_WITHIN):
            while True:
                found = await self._client.get(ResourceQuota, QUOTA, NAMESPACE)
                if found.status.used.get("pods") == str(pods):
                    return
                await asyncio.sleep(POKE_SECONDS)

    @contextlib.asynccontextmanager
    async def _crashing_neighbour(self) -> AsyncIterator[None]:
        neighbour = f"crash{self._number}"
        await self._join(SESSION, neighbour)
        url = await self._endpoint(SESSION, neighbour)
        poking = asyncio.create_task(self._poke(f"{url}crash"))
        try:
            await self._until(neighbour, _keeps_crashing, "crashes again and again")
            yield
        finally:
            poking.cancel()
            await asyncio.wait((poking,))
            await self._leave(SESSION, neighbour)

    async def _poke(self, url: str) -> None:
        while True:
            with contextlib.suppress(OSError, aiohttp.ClientError, TimeoutError):
                async with self._http.get(url) as answer:
                    await answer.read()
            await asyncio.sleep(POKE_SECONDS)

    @contextlib.asynccontextmanager
    async def _neighbour_without_image(self) -> AsyncIterator[None]:
        neighbour = f"image{self._number}"
        pod = await self._join(SESSION, neighbour)
        image = [{"name": "server", "image": MISSING_IMAGE}]
        await self._client.patch(
            Pod, pod, NAMESPACE, body={"spec": {"containers": image}}, type=Patch.STRATEGIC
        )
        try:
            await self._until(neighbour, lambda has: "Image" in has.reason, "lacks its image")
            yield
        finally:
            await self._leave(SESSION, neighbour)

    async def _come(self, client: str) -> None:
        here = {"spec": {"clients": {client: {"connected": True}}}}
        await self._client.patch(Session, SESSION, NAMESPACE, body=here)

    async def _until(self, client: str, holds: Holds, what: str) -> None:
        def shows(seen: Session | None) -> bool:
            has = seen.status.clients.get(client) if seen is not None else None
            return has is not None and holds(has)

        key, what = Key(NAMESPACE, SESSION), f"{client} {what}"
        await self._sessions.until(key, shows, what, within=IN_TROUBLE_WITHIN)

    def _figures(self) -> dict[str, Any]:
        kinds = ("calm", "quota", "crash", "image")
        figures = {f"{kind}_s": summary(self._times[kind]) for kind in ("bare", *kinds)}
        bare = figures["bare_s"]["p50"]
        ratios = {f"{kind}_p50": ratio(figures[f"{kind}_s"]["p50"], bare) for kind in kinds}
        return {**figures, "ratios": ratios}


def _keeps_crashing(has: ClientStatus) -> bool:
    failures = has.failures.get("server")
    return failures is not None and failures.count >= PODS_IN_A_ROW and not has.pods
