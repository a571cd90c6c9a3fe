"""One HTTP listener of ours in a process of its own, as its program starts it.

`python victim.py KIND FOLDER DESCRIPTORS` prints its port and serves until it is killed. What is
behind the listener is the real thing where that needs no cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

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


async def main(kind: str, folder: Path) -> None:
    kinds = {
        "server": lambda: server(folder, tls=False),
        "server-tls": lambda: server(folder, tls=True),
        "webhooks": lambda: webhooks(folder),
        "health": health,
        "control": lambda: control(folder),
        "ping": ping,
    }
    async with kinds[kind]() as port:
        print(port, flush=True)  # noqa: T201
        await asyncio.Event().wait()


if __name__ == "__main__":
    if descriptors := int(sys.argv[3]):
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    set_up_logs(json=False)
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
