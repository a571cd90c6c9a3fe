"""The API on a socket: uvicorn around the app, and the replica for as long as it serves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from edgewise.errors import ReadableError
from edgewise.runtime.listening.listener import ConnectionLimits, Limits, Listener, bind
from edgewise.server.http.request_ids import RequestIds

GRACE_SECONDS = 5
# Long enough for a client's next heartbeat to find its connection open.
KEEP_ALIVE_SECONDS = 75


class CannotListen(ReadableError):
    """The address is taken, or not ours."""


class Tls(msgspec.Struct, frozen=True):
    certificate: Path
    key: Path


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 8443
    tls: Tls | None = None
    # Addresses of proxies whose X-Forwarded-For is believed.
    proxies: tuple[str, ...] = ()
    connections: int = ConnectionLimits().connections
    connections_per_address: int = ConnectionLimits().per_address


class Server(uvicorn.Server):
    """uvicorn, but for the listening, which it leaves without bounds."""

    def __init__(self, config: uvicorn.Config, limits: Limits) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._limits = limits

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        listeners = [
            Listener(bound, self._protocol, self._limits, tls=self.config.ssl)
            for bound in sockets or []
        ]
        for listener in listeners:
            listener.start()
        self.servers = cast(Any, listeners)
        self.started = True
        self.listening.set()

    def _protocol(self) -> asyncio.Protocol:
        return HttpToolsProtocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """Signals belong to whoever runs us."""
        yield


@contextlib.asynccontextmanager
async def serving(
    app: RequestIds, listen: Listen, *, at_end: Callable[[], None] = lambda: None
) -> AsyncIterator[int]:
    """Serve until the block ends; answers the port.

    `at_end` is called when no new requests are taken, to end those that would go on for ever.
    """
    # uvicorn's own line has the whole URL in it; ours has the pattern of the route.
    access = logging.getLogger("uvicorn.access")
    access.handlers, access.propagate, access.disabled = [], False, True
    listener = _bind(listen)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        http=HttpToolsProtocol,
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        proxy_headers=bool(listen.proxies),
        forwarded_allow_ips=list(listen.proxies) or None,
        ssl_certfile=listen.tls.certificate if listen.tls else None,
        ssl_keyfile=str(listen.tls.key) if listen.tls else None,
    )
    server = Server(config, limits_of(listen))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        up = asyncio.create_task(server.listening.wait())
        await asyncio.wait({up, task}, return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if task.done():
            await task
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        at_end()
        await asyncio.wait({task}, timeout=GRACE_SECONDS + 2)
        task.cancel()
        await asyncio.wait({task})
        listener.close()


def limits_of(listen: Listen) -> Limits:
    return Limits(
        connections=ConnectionLimits(
            connections=listen.connections,
            per_address=listen.connections_per_address,
            proxies=listen.proxies,
        )
    )


def _bind(listen: Listen) -> socket.socket:
    try:
        return bind(listen.host, listen.port)
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {listen.host}:{listen.port}: {error.strerror or error}; "
            "choose another address with --listen"
        ) from error
