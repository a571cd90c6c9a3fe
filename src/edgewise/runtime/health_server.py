"""HTTP for those who look after the process: /healthz, /readyz and /metrics, and beside these
what else its parts have to answer."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

import msgspec
from aiohttp import web

from edgewise.runtime.listening.listener import ConnectionLimits, Limits, PortInUse
from edgewise.runtime.listening.web_app import listening
from edgewise.runtime.metrics import CONTENT_TYPE, Metrics

# Kubelets and collectors of metrics call here, each with a connection or two.
LIMITS = Limits(connections=ConnectionLimits(connections=512, per_address=128, waiting=96))
# Where domains answer, every pod of theirs may hold a connection or two; those of one node can
# have one address.
MANY = Limits(connections=ConnectionLimits(connections=8192, per_address=2048, waiting=512))

# Each check answers what is wrong, or nothing.
Check = Callable[[], str]


class Handler(msgspec.Struct, frozen=True):
    """One more path to answer at. The listener bounds connections, headers and bodies."""

    method: str
    path: str
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]]


class HealthServer:
    def __init__(
        self,
        metrics: Metrics,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        healthy: Mapping[str, Check] | None = None,
        ready: Mapping[str, Check] | None = None,
        handlers: Sequence[Handler] = (),
    ) -> None:
        self.host = host
        self.port = port  # 0 is any free one; the real one is known inside `running`
        self._metrics = metrics
        self._healthy = dict(healthy or {})
        self._ready = dict(ready or {})
        self._handlers = handlers

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/healthz", self._answer(self._healthy))
        app.router.add_get("/readyz", self._answer(self._ready))
        app.router.add_get("/metrics", self._show_metrics)
        for handler in self._handlers:
            app.router.add_route(handler.method, handler.path, handler.answer)
        async with contextlib.AsyncExitStack() as stack:
            try:
                self.port = await stack.enter_async_context(
                    listening(app, self.host, self.port, MANY if self._handlers else LIMITS)
                )
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise PortInUse(
                        f"port {self.port} on {self.host} is in use: choose another one, "
                        "or stop what listens there"
                    ) from error
                raise
            yield

    def _answer(
        self, checks: Mapping[str, Check]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(_: web.Request) -> web.Response:
            wrong = {name: text for name, check in checks.items() if (text := check())}
            lines = [f"{name}: {wrong.get(name, 'ok')}\n" for name in checks]
            return web.Response(status=503 if wrong else 200, text="".join(lines) or "ok\n")

        return handler

    async def _show_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})
