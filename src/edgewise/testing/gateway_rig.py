"""A real Envoy, driven by the real agent, in front of real little servers on loopback.

For tests: everything listens on 127.0.0.1, and ends with the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any, cast

from aiohttp import web
from prometheus_client import CollectorRegistry

from edgewise.agents.gateway.ads import AdsServer
from edgewise.agents.gateway.envoy_bootstrap import xds_socket
from edgewise.agents.gateway.envoy_process import EnvoyProcess
from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.agents.gateway.routing import Routing
from edgewise.agents.gateway.settings import Ports, Settings
from edgewise.exposure.route import Owner, Protocol, Route
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port

LOOPBACK = "127.0.0.1"


class Pod:
    """What stands for a pod: one server for each protocol, which say who they are."""

    def __init__(self, name: str, address: str = LOOPBACK) -> None:
        self.name = name
        self.address = address
        self.requests: list[web.Request] = []
        self.udp_peers: set[tuple[str, int]] = set()
        self.ports: dict[Protocol, int] = {}
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> Pod:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._http)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, self.address, 0).start()
        self.ports["HTTP"] = runner.addresses[0][1]

        server = await asyncio.start_server(self._tcp, self.address, 0)
        self._stack.callback(server.close)
        self.ports["TCP"] = server.sockets[0].getsockname()[1]

        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: Datagrams(self), local_addr=(self.address, 0)
        )
        self._stack.callback(transport.close)
        self.ports["UDP"] = transport.get_extra_info("sockname")[1]
        return self

    async def stop(self) -> None:
        await self._stack.aclose()

    async def _http(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if request.headers.get("upgrade") == "websocket":
            chat = web.WebSocketResponse()
            await chat.prepare(request)
            async for message in chat:
                await chat.send_str(f"{self.name} {message.data}")
            return chat
        body = await request.read()
        return web.json_response(
            {"pod": self.name, "path": request.path_qs, "raw": request.raw_path, "size": len(body)}
        )

    async def _tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                writer.write(self.name.encode() + b" " + line)
                await writer.drain()
        writer.close()


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, pod: Pod) -> None:
        self.pod = pod

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.pod.udp_peers.add(addr)
        self.transport.sendto(self.pod.name.encode() + b" " + data, addr)


class UdpClient(asyncio.DatagramProtocol):
    """A client that keeps its own port, as a game does."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[str] = asyncio.Queue()

    @classmethod
    async def open(cls, port: int) -> UdpClient:
        _, client = await asyncio.get_running_loop().create_datagram_endpoint(
            cls, remote_addr=(LOOPBACK, port)
        )
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:  # noqa: ARG002
        self.answers.put_nowait(data.decode())

    def error_received(self, exc: Exception) -> None:
        pass

    def send(self, text: str) -> None:
        self.transport.sendto(text.encode())

    async def ask(self, text: str, timeout: float = 2.0) -> str:
        self.send(text)
        return await asyncio.wait_for(self.answers.get(), timeout)

    def close(self) -> None:
        self.transport.close()


class Gateway:
    """The agent's parts between routes and Envoy, and an Envoy."""

    def __init__(self, run_dir: Path, settings: Settings, drain_seconds: float = 1.0) -> None:
        self.run_dir = run_dir
        self.settings = settings
        self.new_agent()
        self.envoy = EnvoyProcess(run_dir, self.metrics, workers=2, drain_seconds=drain_seconds)
        self._supervisor: asyncio.Task[None] | None = None

    def new_agent(self) -> None:
        self.metrics = GatewayMetrics(CollectorRegistry())
        self.routing = Routing(self.settings, self.metrics, time.monotonic)
        self.ads = AdsServer(self.routing.streams, self.routing.known)

    async def start_agent(self) -> None:
        await self.ads.start([f"unix:{xds_socket(self.run_dir)}"])
        self._clock = asyncio.create_task(self.routing.keep_time())

    async def stop_agent(self) -> None:
        """End the agent; Envoy goes on."""
        self._clock.cancel()
        await self.ads.stop()

    async def start(self) -> None:
        await self.start_agent()
        self._supervisor = asyncio.create_task(self.envoy.run())

    async def stop(self) -> None:
        await self.envoy.stop()
        if self._supervisor is not None:
            await asyncio.wait_for(self._supervisor, 10)
        await self.stop_agent()

    async def ready(self) -> None:
        self.routing.known.set()
        await eventually(lambda: not self.routing.unready, within=20)

    async def serve(self, name: str, *routes: Route) -> None:
        """Push, and see that Envoy has taken it."""
        outcome = await self.routing.push(owner(name), list(routes), timeout=10)
        if outcome.rejected or outcome.pending:
            raise AssertionError(f"rejected {outcome.rejected}, pending {outcome.pending}")
        self.routing.show(owner(name), routes)

    def url(self, path: str) -> str:
        return f"http://{LOOPBACK}:{self.settings.http_port}{path}"


def owner(name: str) -> Owner:
    return Owner("sessions", name)


def settings_for_test(**changes: Any) -> Settings:
    fields: dict[str, Any] = {
        "bind": LOOPBACK,
        "http_port": free_port(),
        "ports": Ports(20000, 21400),
        "allow_local_targets": True,
    }
    return Settings(**(fields | changes))


def route(
    pod: Pod, seat: str, protocol: Protocol = "HTTP", listen_port: int = 0, **more: str
) -> Route:
    return Route(
        seat=seat,
        port_name=more.pop("port_name", protocol.lower()),
        protocol=protocol,
        listen_port=listen_port,
        address=pod.address,
        target_port=pod.ports[protocol],
        **more,
    )
