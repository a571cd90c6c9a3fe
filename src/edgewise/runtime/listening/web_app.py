"""An aiohttp application on a bounded listener."""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from edgewise.runtime.listening.listener import Limits, Listener, bind

KEEP_ALIVE_SECONDS = 75.0


class _NotOurMistakes(logging.Filter):
    """Bad requests, which are answered with a sentence, do not belong into our log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


LOG = logging.getLogger(__name__)
LOG.addFilter(_NotOurMistakes())


@web.middleware
async def gone_quietly(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """A caller that goes away in the middle of its body is no failure of ours to log."""
    try:
        return await handler(request)
    except ConnectionError:
        if request.transport is not None:
            raise
        return web.Response(status=400)  # which nobody reads


@contextlib.asynccontextmanager
async def listening(
    app: web.Application,
    host: str,
    port: int,
    limits: Limits | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    drain_seconds: float = 1.0,
) -> AsyncIterator[int]:
    """Serve an aiohttp application until the block ends; answers the port."""
    limits = limits or Limits()
    app.middlewares.insert(0, gone_quietly)
    bound = bind(host, port)
    most = limits.request.header_bytes * 2  # the guard is stricter, and says why
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=LOG,
        shutdown_timeout=drain_seconds,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        max_line_size=most,
        max_field_size=most,
        max_headers=limits.request.header_fields * 2,
        # Nobody who calls us packs a body, and a small one may unpack to a large one.
        auto_decompress=False,
    )
    try:
        await runner.setup()
        listener = Listener(bound, cast(web.Server, runner.server), limits, tls=tls)
        listener.start()
        try:
            yield listener.port
        finally:
            listener.close()
    finally:
        bound.close()
        await runner.cleanup()
