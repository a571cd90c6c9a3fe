"""A proxy in front of a real API server that does to a client whatever can happen to it.

It understands what is asked (a list, a later page of one, a watch, a read, a write), so a
fault can be as precise as the real thing: history that expired in the middle of a list, an
answer that was lost after the write was carried out, a watch that falls silent without
closing. Which fault happens when is decided by a `Script` (tests of one thing) or by
`SeededFaults` (the fault suite).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict

from edgewise.kube.config import Access
from edgewise.kube.tls import TlsContexts
from edgewise.testing.faults import Asking, Fault, Faults, Script

FOR_EVER = 3600.0
# Of one connection only; the other side makes its own.
_HOP_HEADERS = ("connection", "host", "transfer-encoding", "content-length", "keep-alive")


class Upstream:
    """Connections to the real API server; many proxies may share them."""

    def __init__(self, access: Access) -> None:
        self.server = access.server
        self._access = access
        self._tls = TlsContexts(access.trust)
        self._session: aiohttp.ClientSession | None = None

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Upstream]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            connector=connector, auto_decompress=False, read_bufsize=1 << 20
        ) as self._session:
            yield self

    async def send(self, request: web.BaseRequest, body: bytes) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("use the upstream inside `async with upstream.connected()`")
        identity = await self._access.credentials.identity()
        headers = CIMultiDict(
            (name, value)
            for name, value in request.headers.items()
            if name.lower() not in _HOP_HEADERS
        )
        if identity.authorization:
            headers["Authorization"] = identity.authorization
        secure = self.server.startswith("https:")
        return await self._session.request(
            request.method,
            f"{self.server}{request.raw_path}",
            headers=headers,
            data=body or None,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            ssl=self._tls.context(identity.certificate) if secure else True,
        )


class FaultProxy:
    """Listens on loopback; `access` is how a client gets to the API server through it."""

    def __init__(
        self,
        upstream: Upstream,
        faults: Faults | None = None,
        *,
        retry_after: int = 1,
        delay: float = 0.05,
        late: float = 0.5,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.faults: Faults = faults or Script()  # an empty script: nothing goes wrong
        self.refusing = False  # cut everything off, as if the network were gone
        self.port = 0
        self._upstream = upstream
        self._retry_after = retry_after
        self.delay = delay
        self.late = late
        self._late_ones: set[asyncio.Task[None]] = set()
        self._listening_tls = tls
        self._open: dict[int, web.BaseRequest] = {}
        # Requests that are being carried out, and whether they are to be cut afterwards.
        self._cut_after: dict[int, bool] = {}
        self._muted = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[FaultProxy]:
        server = web.Server(self._handle, access_log=None)
        runner = web.ServerRunner(server, handler_cancellation=True, shutdown_timeout=0.01)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._listening_tls)
            await site.start()
            self.port = runner.addresses[0][1]
            yield self
        finally:
            self.cut_all()
            await self.all_carried_out()
            await runner.cleanup()

    @property
    def access(self) -> Access:
        scheme = "https" if self._listening_tls else "http"
        return Access(server=f"{scheme}://127.0.0.1:{self.port}", origin="the fault proxy")

    def cut_all(self) -> None:
        """Cut every connection that has a request on it.

        What the API server is carrying out is cut off from its answer: if it were carried
        out at some time later, no test could say what must be true then.
        """
        for number, request in list(self._open.items()):
            if number in self._cut_after:
                self._cut_after[number] = True
            else:
                _cut(request)

    def mute_all(self) -> None:
        """Let every running watch fall silent, with its connection open."""
        self._muted.set()
        self._muted = asyncio.Event()

    async def all_carried_out(self) -> None:
        """Return when nothing that was put off is left to be carried out."""
        while self._late_ones:
            await asyncio.wait(self._late_ones)

    # One request --------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._open[id(request)] = request
        try:
            return await self._answer(request)
        except (aiohttp.ClientError, OSError):
            # The API server is away: what a client would see without us.
            _cut(request)
            return web.Response(status=502)
        finally:
            del self._open[id(request)]

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        asking = _asking(request)
        fault = self.faults.choose(asking)
        if self.refusing or fault is Fault.CUT:
            _cut(request)
            return web.Response(status=502)
        if fault is Fault.LATE:
            self._put_off(request, body)
            _cut(request)
            return web.Response(status=502)
        if fault in _STATUSES:
            return self._refusal(_STATUSES[fault])
        if fault is Fault.DELAY:
            await asyncio.sleep(self.delay)
        if asking is Asking.WATCH:
            return await self._watch(request, body, fault)
        carried_out = asyncio.ensure_future(self._carry_out(request, body))
        answer, content, cut = await asyncio.shield(carried_out)
        if cut:
            fault = Fault.LOST
        if fault is Fault.SILENT:
            await asyncio.sleep(FOR_EVER)
        if fault in (Fault.LOST, Fault.HALF):
            await self._break_off(request, answer, content if fault is Fault.HALF else b"")
        return web.Response(status=answer.status, body=content, headers=_passed_on(answer))

    def _put_off(self, request: web.BaseRequest, body: bytes) -> None:
        async def later() -> None:
            await asyncio.sleep(self.late)
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with await self._upstream.send(request, body) as answer:
                    await answer.read()

        task = asyncio.create_task(later())
        self._late_ones.add(task)
        task.add_done_callback(self._late_ones.discard)

    async def _carry_out(
        self, request: web.BaseRequest, body: bytes
    ) -> tuple[aiohttp.ClientResponse, bytes, bool]:
        """Also to its end when the client has gone; says whether to cut the client off."""
        self._cut_after[id(request)] = False
        try:
            async with await self._upstream.send(request, body) as answer:
                content = await answer.read()
        finally:
            cut = self._cut_after.pop(id(request))
        return answer, content, cut

    def _refusal(self, status: Mapping[str, object]) -> web.Response:
        code = int(str(status["code"]))
        headers = {"Retry-After": str(self._retry_after)} if code == 429 else {}
        return web.Response(
            status=code,
            body=msgspec.json.encode(status),
            content_type="application/json",
            headers=headers,
        )

    async def _break_off(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse, content: bytes
    ) -> None:
        if content:
            started = web.StreamResponse(status=answer.status, headers=_passed_on(answer))
            started.content_length = len(content)
            await started.prepare(request)
            await started.write(content[: len(content) // 2])
        _cut(request)

    # A watch ------------------------------------------------------------------------

    async def _watch(
        self, request: web.BaseRequest, body: bytes, fault: Fault | None
    ) -> web.StreamResponse:
        muted = self._muted
        async with await self._upstream.send(request, body) as answer:
            if answer.status != 200:
                content = await answer.read()
                return web.Response(status=answer.status, body=content, headers=_passed_on(answer))
            if fault is Fault.SILENT:
                await asyncio.sleep(FOR_EVER)
            stream = web.StreamResponse(status=200, headers=_passed_on(answer))
            await stream.prepare(request)
            if fault in (Fault.LOST, Fault.HALF):
                _cut(request)
                return stream
            lines = _lines(answer)
            earlier: deque[bytes] = deque(maxlen=5)
            async with contextlib.aclosing(lines):
                async for line in lines:
                    if muted.is_set():
                        await asyncio.sleep(FOR_EVER)
                    if await self._pass_on(request, stream, line, earlier):
                        return stream
            return stream

    async def _pass_on(
        self,
        request: web.BaseRequest,
        stream: web.StreamResponse,
        line: bytes,
        earlier: deque[bytes],
    ) -> bool:
        """One event of a watch; True ends it."""
        match self.faults.choose(Asking.EVENT):
            case Fault.GONE:
                event = {"type": "ERROR", "object": _STATUSES[Fault.GONE]}
                await stream.write(msgspec.json.encode(event) + b"\n")
                return True
            case Fault.CUT | Fault.LOST:
                _cut(request)
                return True
            case Fault.HALF:
                await stream.write(line[: len(line) // 2])
                _cut(request)
                return True
            case Fault.SILENT:
                await asyncio.sleep(FOR_EVER)
            case Fault.DELAY:
                await asyncio.sleep(self.delay)
            case Fault.REPEAT:
                await stream.write(line)
                line = b"".join(earlier) + line
        earlier.append(line)
        await stream.write(line)
        return False


def _status(code: int, reason: str, message: str) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


_STATUSES: Mapping[Fault | None, dict[str, object]] = {
    Fault.GONE: _status(410, "Expired", "a made-up fault: the history is gone"),
    Fault.CONFLICT: _status(409, "Conflict", "a made-up fault: the object was modified"),
    Fault.TOO_MANY: _status(429, "TooManyRequests", "a made-up fault: come back later"),
    Fault.ERROR: _status(500, "InternalError", "a made-up fault: something broke"),
}


def _asking(request: web.BaseRequest) -> Asking:
    if request.method != "GET":
        return Asking.WRITE
    if request.query.get("watch") in ("true", "1"):
        return Asking.WATCH
    if "continue" in request.query:
        return Asking.PAGE
    return Asking.LIST if "limit" in request.query or _is_collection(request) else Asking.READ


def _is_collection(request: web.BaseRequest) -> bool:
    """Whether a path such as /api/v1/namespaces/x/pods ends in the name of a kind."""
    parts = [part for part in request.path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return len(rest) == 1


def _passed_on(answer: aiohttp.ClientResponse) -> dict[str, str]:
    kept = ("Content-Type", "Retry-After", "Content-Encoding")
    return {name: answer.headers[name] for name in kept if name in answer.headers}


def _cut(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _lines(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    rest = b""
    while chunk := await answer.content.readany():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
