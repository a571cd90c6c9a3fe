"""The HTTP half, for browsers and for networks that let no UDP through."""

from __future__ import annotations

import asyncio
import math
from collections import Counter

from aiohttp import web
from prometheus_client import Counter as Metric

from edgewise.agents.ping.callers import Limits, caller
from edgewise.runtime.budgets import Budgets

IDLE_SECONDS = 10.0
LONGEST_LINE = 1024  # no probe needs more

REQUESTS = Metric("edgewise_ping_requests_total", "HTTP requests, by status.", ["status"])

# A page of another origin may measure, and may read how long it took.
OPEN = {
    "Access-Control-Allow-Origin": "*",
    "Timing-Allow-Origin": "*",
    "Cache-Control": "no-store",
}


class HttpEcho(web.Server):
    """Answers `GET /ping` with nothing, quickly. Connections are counted and bounded."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(
            self._answer,
            access_log=None,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=0.0,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
        )
        self._limits = limits
        self._each = Budgets(limits.per_caller, limits.burst)
        self._all = Budgets(limits.altogether, max(1, int(limits.altogether)))
        self._open: Counter[str] = Counter()

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        peer = _peer(transport)
        self._open[peer] += 1
        if (
            self._open[peer] > self._limits.connections_per_caller
            or self._open.total() > self._limits.connections
        ):
            transport.abort()

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        if handler.transport is not None:
            peer = _peer(handler.transport)
            self._open[peer] -= 1
            if self._open[peer] <= 0:
                del self._open[peer]
        super().connection_lost(handler, exc)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        response = self._decide(request)
        REQUESTS.labels(str(response.status)).inc()
        return response

    def _decide(self, request: web.BaseRequest) -> web.Response:
        if request.path not in ("/ping", "/healthz"):
            return web.Response(status=404, headers=OPEN)
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers=OPEN | {"Allow": "GET, HEAD"})
        if request.path == "/ping":
            wait = self._each.spend(caller(request.remote or "")) or self._all.spend(None)
            if wait:
                return web.Response(
                    status=429, headers=OPEN | {"Retry-After": str(math.ceil(wait))}
                )
        return web.Response(status=204, headers=OPEN)


def _peer(transport: asyncio.BaseTransport) -> str:
    peer = transport.get_extra_info("peername")
    return caller(str(peer[0])) if peer else ""
