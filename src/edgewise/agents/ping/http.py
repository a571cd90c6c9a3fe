"""The HTTP half, for browsers and for networks that let no UDP through."""

from __future__ import annotations

import math

from aiohttp import web
from prometheus_client import Counter as Metric

from edgewise.agents.ping.callers import Limits
from edgewise.runtime.budgets import Budgets
from edgewise.runtime.listening import listener
from edgewise.runtime.listening.callers import caller
from edgewise.runtime.listening.request_guard import RequestLimits
from edgewise.runtime.listening.web_app import LOG

IDLE_SECONDS = 10.0
MOST_HEADER_BYTES = 8 * 1024  # no browser sends more with a probe

REQUESTS = Metric("edgewise_ping_requests_total", "HTTP requests, by status.", ["status"])

# A page of another origin may measure, and may read how long it took.
OPEN = {
    "Access-Control-Allow-Origin": "*",
    "Timing-Allow-Origin": "*",
    "Cache-Control": "no-store",
}


def listener_limits(limits: Limits) -> listener.Limits:
    return listener.Limits(
        connections=listener.ConnectionLimits(
            connections=limits.connections,
            per_address=limits.connections_per_caller,
            waiting=limits.connections,
            body_bytes=1 << 20,
        ),
        request=RequestLimits(header_bytes=MOST_HEADER_BYTES, body_seconds=5.0),
    )


class HttpEcho(web.Server):
    """Answers `GET /ping` with nothing, quickly."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(
            self._answer,
            access_log=None,
            logger=LOG,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=0.0,
            max_line_size=2 * MOST_HEADER_BYTES,  # the listener is stricter, and says why
            max_field_size=2 * MOST_HEADER_BYTES,
        )
        self._each = Budgets(limits.per_caller, limits.burst)
        self._all = Budgets(limits.altogether, max(1, int(limits.altogether)))

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
