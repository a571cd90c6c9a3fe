"""One HTTP listener of ours in a process of its own, as its program starts it.

`python victim.py KIND FOLDER DESCRIPTORS` prints its port and serves until it is killed. What is
behind the listener is the real thing where that needs no cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

from litestar import Litestar, get

from edgewise.agents.gateway.agent import Address as ControlAddress
from edgewise.agents.gateway.agent import AgentOptions, EnvoyPlace, GatewayAgent
from edgewise.agents.gateway.settings import Ports, Settings
from edgewise.agents.ping.agent import Address, ping_agent
from edgewise.runtime.health_server import HealthServer
from edgewise.runtime.logs import set_up_logs
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.webhooks.serving import WebhookServer
from edgewise.server.http.request_ids import RequestIds
from edgewise.server.http.serving import Listen, Tls, serving


@get("/healthz", media_type="text/plain", sync_to_thread=False)
def healthz() -> str:
    return "ok"


def certificate(folder: Path) -> tuple[Path, Path]:
    return folder / "server.crt", folder / "server.key"


@contextlib.asynccontextmanager
async def server(folder: Path, tls: bool) -> AsyncIterator[int]:
    app = RequestIds(Litestar([healthz], openapi_config=None))
    listen = Listen(port=0, tls=Tls(*certificate(folder)) if tls else None)
    async with serving(app, listen) as port:
        yield port


@contextlib.asynccontextmanager
async def webhooks(folder: Path) -> AsyncIterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(folder))
    async with WebhookServer([], context, host="127.0.0.1", port=0) as at:
        yield at.port


@contextlib.asynccontextmanager
async def health() -> AsyncIterator[int]:
    at = HealthServer(Metrics(), port=0)
    async with at.running():
        yield at.port


@contextlib.asynccontextmanager
async def control(folder: Path) -> AsyncIterator[int]:
    agent = GatewayAgent(
        AgentOptions(
            settings=Settings(ports=Ports(20000, 20001)),
            run_dir=folder,
            control=ControlAddress("127.0.0.1", 0),
            token=lambda: "a-token-for-the-operator",
            envoy=EnvoyPlace.ELSEWHERE,
        )
    )
    async with agent.running():
        yield agent.control_port


@contextlib.asynccontextmanager
async def ping() -> AsyncIterator[int]:
    async with ping_agent(Address("127.0.0.1", 0), None) as at:
        assert at.http is not None
        yield at.http.port


@contextlib.asynccontextmanager
async def bare(folder: Path, tls: bool) -> AsyncIterator[int]:
    """The least that asyncio can do: it bounds nothing, and says `ok` to whatever ends a line
    with nothing on it. What an attack costs here no listener in Python can go below."""
    context: ssl.SSLContext | None = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate(folder))

    class Bare(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast(asyncio.Transport, transport)

        def data_received(self, data: bytes) -> None:
            if data.endswith(b"\r\n\r\n"):
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                self.transport.close()

    loop = asyncio.get_running_loop()
    listener = await loop.create_server(Bare, "127.0.0.1", 0, ssl=context, backlog=512)
    async with listener:
        yield int(listener.sockets[0].getsockname()[1])


@contextlib.asynccontextmanager
async def sink() -> AsyncIterator[int]:
    """Takes connections, and never reads: an attack on it costs what the attacker costs."""
    held: list[socket.socket] = []
    bound = socket.create_server(("127.0.0.1", 0), backlog=512)
    bound.setblocking(False)

    def accept() -> None:
        with contextlib.suppress(OSError):
            held.append(bound.accept()[0])

    asyncio.get_running_loop().add_reader(bound.fileno(), accept)
    with bound:
        yield int(bound.getsockname()[1])


async def main(kind: str, folder: Path) -> None:
    kinds = {
        "server": lambda: server(folder, tls=False),
        "server-tls": lambda: server(folder, tls=True),
        "webhooks": lambda: webhooks(folder),
        "health": health,
        "control": lambda: control(folder),
        "ping": ping,
        "bare": lambda: bare(folder, tls=False),
        "bare-tls": lambda: bare(folder, tls=True),
        "sink": sink,
    }
    async with kinds[kind]() as port:
        print(port, flush=True)  # noqa: T201
        await asyncio.Event().wait()


if __name__ == "__main__":
    if descriptors := int(sys.argv[3]):
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    elif sys.argv[1] in ("bare", "bare-tls", "sink"):  # ours raise it themselves
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    set_up_logs(json=False)
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
