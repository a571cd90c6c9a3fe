"""HTTP for those who look after the process: /healthz, /readyz and /metrics."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from aiohttp import web

from edgewise.runtime.metrics import CONTENT_TYPE, Metrics

# Each check answers what is wrong, or nothing.
Check = Callable[[], str]


class PortInUse(Exception):
    """Somebody else listens where we wanted to."""


class HealthServer:
    def __init__(
        self,
        metrics: Metrics,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        healthy: Mapping[str, Check] | None = None,
        ready: Mapping[str, Check] | None = None,
    ) -> None:
        self.host = host
        self.port = port  # 0 is any free one; the real one is known inside `running`
        self._metrics = metrics
        self._healthy = dict(healthy or {})
        self._ready = dict(ready or {})

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/healthz", self._answer(self._healthy))
        app.router.add_get("/readyz", self._answer(self._ready))
        app.router.add_get("/metrics", self._show_metrics)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self.host, self.port)
            try:
                await site.start()
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise PortInUse(
                        f"port {self.port} on {self.host} is in use: choose another one, "
                        "or stop what listens there"
                    ) from error
                raise
            self.port = runner.addresses[0][1]
            yield
        finally:
            await runner.cleanup()

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
