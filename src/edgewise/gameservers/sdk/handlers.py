"""Where sidecars call the operator: what their game says, and what it is told.

Every replica answers. What a game said is in the status of its Server before the sidecar is
told that it was heard; the replica that leads acts on it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging

import aiohttp
import msgspec
from aiohttp import web

from edgewise.api.games import Allocation, Server
from edgewise.gameservers import names
from edgewise.gameservers.retirement import hold_of
from edgewise.gameservers.sdk.tokens import BadToken, PodIdentity, PodTokens
from edgewise.gameservers.sdk.words import (
    Said,
    Shutdown,
    View,
    metadata_patch,
    status_patch,
    view_of,
)
from edgewise.kube.client import Client
from edgewise.kube.errors import UNREADABLE_JSON, KubeError, NotFound
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Key, Object
from edgewise.runtime.budgets import Budgets
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.health_server import Handler

PATH = "/gameservers/v1"
LARGEST_BODY = 65_536
BODY_SECONDS = 10.0
POLL_SECONDS = 25.0
# A sidecar has one open, and for a moment that of the sidecar before it. At every change of its
# server all of them are answered.
MOST_LISTENING = 4
# Calls a second of one pod, and how many at once; and of these, those that write its Server.
CALLS = (20.0, 60)
WRITES = (4.0, 20)

_log = logging.getLogger(__name__)


class SdkHandlers:
    def __init__(
        self,
        client: Client,
        tokens: PodTokens,
        *,
        servers: Cache[Server],
        pods: Cache[Pod],
        allocations: Cache[Allocation],
    ) -> None:
        self._client = client
        self._tokens = tokens
        self._servers = servers
        self._pods = pods
        self._allocations = allocations
        self._waiting: dict[Key, set[asyncio.Event]] = {}
        self._budgets = Budgets(*CALLS)
        self._writes = Budgets(*WRITES)
        servers.subscribe(self._changed)
        allocations.subscribe(self._changed)

    def handlers(self) -> tuple[Handler, ...]:
        return (
            Handler("PUT", f"{PATH}/said", self.said),
            Handler("GET", f"{PATH}/server", self.view),
        )

    async def said(self, request: web.Request) -> web.StreamResponse:
        """All that the game has said; answered when it is written."""
        try:
            who = await self._who(request)
            said = await self._words(request)
        except _Refused as refused:
            return refused.answer
        server = who.server
        status, metadata = status_patch(server, said, who.pod.uid), metadata_patch(server, said)
        # What it said is kept by its sidecar, which sends it whole: nothing is lost.
        if (status or metadata) and (wait := self._writes.spend(who.pod.uid)) > 0:
            return _later("this server says other words too often", wait)
        try:
            if status:
                await self._client.patch(
                    Server,
                    server.metadata.name,
                    server.metadata.namespace,
                    body={"status": status},
                    subresource="status",
                )
            if metadata:
                await self._client.patch(
                    Server,
                    server.metadata.name,
                    server.metadata.namespace,
                    body={"metadata": {**metadata, "uid": server.metadata.uid}},
                )
        except NotFound:
            return _sentence(410, "the Server of this pod is gone")
        except KubeError as error:
            _log.warning("what %s said could not be written: %s", server.key, error)
            return _sentence(503, "the API server does not answer: say it again later")
        return web.Response(status=204)

    async def view(self, request: web.Request) -> web.StreamResponse:
        """What the game is told; with `since`, as soon as it is something else than that."""
        try:
            who = await self._who(request)
        except _Refused as refused:
            return refused.answer
        key, since = who.server.key, request.query.get("since", "")
        if len(self._waiting.get(key, ())) >= MOST_LISTENING:
            return _later("this server listens more than once", 1.0)
        event = asyncio.Event()
        self._waiting.setdefault(key, set()).add(event)
        try:
            async with asyncio.timeout(POLL_SECONDS):
                while True:
                    event.clear()
                    body, tag = self._view(key)
                    if tag != since:
                        return web.Response(
                            body=body, content_type="application/json", headers={"ETag": tag}
                        )
                    await event.wait()
        except TimeoutError:
            return web.Response(status=204)
        finally:
            waiting = self._waiting[key]
            waiting.discard(event)
            if not waiting:
                del self._waiting[key]

    def _view(self, key: Key) -> tuple[bytes, str]:
        server = self._servers.get(key)
        if server is None:
            gone = View(name=key.name, state="Shutdown", shutdown=_GONE)
            body = msgspec.json.encode(gone)
        else:
            body = msgspec.json.encode(view_of(server, hold_of(server, self._allocations).match))
        return body, hashlib.sha256(body).hexdigest()[:16]

    async def _words(self, request: web.Request) -> Said:
        try:
            body = await read_body(request.content)
            if len(body) > LARGEST_BODY:
                raise _Refused(_sentence(413, f"the body has more than {LARGEST_BODY} bytes"))
            return msgspec.json.decode(body, type=Said)
        except TimeoutError:
            late = f"the body did not come within {BODY_SECONDS:g} s"
            raise _Refused(_sentence(408, late)) from None
        except UNREADABLE_JSON as error:
            raise _Refused(_sentence(400, str(error))) from error

    async def _who(self, request: web.Request) -> _Who:
        """Whose sidecar calls: the pod of the token has to be the pod of a server, still."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _Refused(_sentence(401, "send the token of the pod as a bearer token"))
        try:
            pod = await self._tokens.check(token.strip())
        except BadToken as error:
            raise _Refused(_sentence(401, str(error))) from error
        except (KubeError, msgspec.MsgspecError, ValueError) as error:
            _log.warning("the keys of the API server cannot be read: %s", error)
            raise _Refused(_sentence(503, "tokens cannot be checked now")) from error
        wait = self._budgets.spend(pod.uid)
        if wait > 0:
            raise _Refused(_later("this server calls too often", wait))
        found = self._pods.get(Key(pod.namespace, pod.pod))
        name = found.metadata.labels.get(names.PROTECTED, "") if found is not None else ""
        # Whoever may create pods can give one the label and the owner of another server's pod;
        # the name is taken as long as that one is there.
        mine = pod.pod == names.pod_of(name)
        if found is None or found.metadata.uid != pod.uid or not name or not mine:
            raise _Refused(_sentence(403, "this pod is not the pod of a game server"))
        server = self._servers.get(Key(pod.namespace, name))
        owners = {each.uid for each in found.metadata.owner_references}
        if server is None or server.metadata.uid not in owners:
            raise _Refused(_sentence(410, "the Server of this pod is gone"))
        return _Who(server, pod)

    def _changed(self, old: Object | None, new: Object | None, _: bool) -> None:
        changed = new or old
        if changed is not None:
            for event in self._waiting.get(changed.key, ()):
                event.set()


async def read_body(content: aiohttp.StreamReader) -> bytes:
    """All of it, in however many pieces it comes; or one byte more than it may have."""
    body = bytearray()
    async with asyncio.timeout(BODY_SECONDS):
        while len(body) <= LARGEST_BODY:
            piece = await content.read(LARGEST_BODY + 1 - len(body))
            if not piece:
                break
            body += piece
    return bytes(body)


class _Who(msgspec.Struct, frozen=True):
    server: Server
    pod: PodIdentity


class _Refused(Exception):
    def __init__(self, answer: web.Response) -> None:
        super().__init__(answer.text)
        self.answer = answer


def _sentence(status: int, text: str) -> web.Response:
    return web.json_response({"error": text}, status=status)


def _later(text: str, wait: float) -> web.Response:
    answer = _sentence(429, text)
    answer.headers["Retry-After"] = str(int(wait) + 1)
    return answer


_GONE = Shutdown(shutdown=True, why="Deleted")
