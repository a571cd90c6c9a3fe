"""Every request has an id, a line in the log, and a place in the metrics."""

from __future__ import annotations

import logging
import re
import secrets
import time
from typing import Any

from litestar import Litestar
from litestar.enums import ScopeType
from litestar.types import Message, Receive, Scope, Send
from prometheus_client import Counter, Histogram

HEADER = b"x-request-id"
_USABLE = re.compile(rb"[A-Za-z0-9._-]{1,64}")

REQUESTS = Counter(
    "edgewise_server_requests", "Requests by method, route and status.", ["method", "route", "code"]
)
SECONDS = Histogram(
    "edgewise_server_request_seconds",
    "Until the answer began, waiting not included in streams.",
    ["method"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))

_log = logging.getLogger("edgewise.server.access")


def method_label(method: str) -> str:
    """A caller may name any method, and each name would be a series that stays."""
    return method if method in METHODS else "other"


def request_id(scope: Any) -> str:
    return str(scope.get("state", {}).get("request_id", ""))


class RequestIds:
    """Around the whole app, so that what finds no route has an id too.

    A caller's own id is taken over if it is harmless: then one id runs through many services.
    """

    def __init__(self, app: Litestar) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self.app(scope, receive, send)
            return
        id = (
            next(
                (
                    value
                    for name, value in scope["headers"]
                    if name == HEADER and _USABLE.fullmatch(value)
                ),
                None,
            )
            or secrets.token_hex(8).encode()
        )
        scope.setdefault("state", {})["request_id"] = id.decode()
        started = time.perf_counter()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                message["headers"] = [*message["headers"], (HEADER, id)]
                self._note(scope, message["status"], time.perf_counter() - started)
            await send(message)

        await self.app(scope, receive, sending)

    def _note(self, scope: Any, status: int, seconds: float) -> None:
        # The path's pattern, not the path: the caller is named, who is meant is not.
        route = str(scope.get("path_template", "")) or "unknown"
        method = method_label(scope["method"])
        REQUESTS.labels(method, route, str(status)).inc()
        SECONDS.labels(method).observe(seconds)
        if _log.isEnabledFor(logging.INFO):
            _log.info(
                "%s %s %d %.1f ms",
                scope["method"],
                route,
                status,
                seconds * 1000,
                extra={
                    "request_id": request_id(scope),
                    "caller": str(scope["state"].get("principal", "nobody")),
                },
            )
