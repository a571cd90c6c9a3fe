"""The gateway agent put together: routes in, Envoy out, and an orderly way to end."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from edgewise.agents.gateway.ads import AdsServer
from edgewise.agents.gateway.control import MOST_BYTES, Control
from edgewise.agents.gateway.envoy_admin import EnvoyAdmin
from edgewise.agents.gateway.envoy_bootstrap import admin_socket, xds_socket
from edgewise.agents.gateway.envoy_process import EnvoyProcess
from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.agents.gateway.routing import Routing
from edgewise.agents.gateway.run_directory import sole
from edgewise.agents.gateway.settings import Settings, SettingsError
from edgewise.runtime.listening.listener import ConnectionLimits, Limits
from edgewise.runtime.listening.web_app import listening

# Operators, kubelets and collectors of metrics call the control port, with few connections.
LIMITS = Limits(
    connections=ConnectionLimits(
        connections=512, per_address=256, waiting=128, body_bytes=4 * MOST_BYTES
    )
)


class EnvoyPlace(enum.StrEnum):
    """Who runs Envoy."""

    CHILD = "child"  # the agent does
    ELSEWHERE = "elsewhere"  # somebody else does; the agent only serves it
    ONLY = "only"  # we run Envoy and nothing else: the agent is in another process


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdigit() or int(port) > 65535:
            raise SettingsError(f"{text!r} is not an address; write it like 0.0.0.0:8090")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How one agent runs; what it serves is in `settings`."""

    settings: Settings
    run_dir: Path
    control: Address
    token: Callable[[], str]
    envoy: EnvoyPlace = EnvoyPlace.CHILD
    xds: Address | None = None  # for an Envoy that cannot reach the run directory
    workers: int = 0
    drain_seconds: float = 20.0


class GatewayAgent:
    """One agent. The caller feeds `routing` and sets its `known` when it is complete."""

    def __init__(self, options: AgentOptions) -> None:
        self._options = options
        self._leaving = False
        self.failed = asyncio.Event()  # Envoy cannot be run: the end of `running` says why
        self.metrics = GatewayMetrics(CollectorRegistry())
        self.routing = Routing(options.settings, self.metrics, time.monotonic)
        self.envoy: EnvoyProcess | None = None
        if options.envoy is EnvoyPlace.CHILD:
            self.envoy = EnvoyProcess(
                options.run_dir,
                self.metrics,
                workers=options.workers,
                drain_seconds=options.drain_seconds,
            )
        self.control_port = 0
        self.trouble: Callable[[], str] = lambda: ""  # what keeps the routes from us

    @property
    def unready(self) -> str:
        """Why clients should be sent elsewhere; empty if they should come."""
        if self._leaving:
            return "the gateway is shutting down"
        trouble = "" if self.routing.known.is_set() else self.trouble()
        return f"{self.routing.unready}: {trouble}" if trouble else self.routing.unready

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the block runs, then let connections end in peace."""
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(sole(self._options.run_dir, "agent"))
            await stack.enter_async_context(self._serving_envoys())
            await stack.enter_async_context(self._listening())
            if self.envoy is not None:
                await stack.enter_async_context(running(self.envoy, self.failed))
            try:
                yield
            finally:
                self._leaving = True

    @contextlib.asynccontextmanager
    async def _serving_envoys(self) -> AsyncIterator[None]:
        ads = AdsServer(self.routing.streams, self.routing.known)
        addresses = [f"unix:{xds_socket(self._options.run_dir)}"]
        if self._options.xds is not None:
            addresses.append(str(self._options.xds))
        await ads.start(addresses)
        clock = asyncio.create_task(self.routing.keep_time())
        try:
            yield
        finally:
            clock.cancel()
            await asyncio.gather(clock, return_exceptions=True)
            await ads.stop()

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        control = Control(
            self.routing,
            self.metrics,
            self._options.token,
            unready=lambda: self.unready,
            envoy_figures=EnvoyAdmin(admin_socket(self._options.run_dir)).figures,
        )
        address = self._options.control
        async with contextlib.AsyncExitStack() as stack:
            try:
                self.control_port = await stack.enter_async_context(
                    listening(
                        control.app(),
                        address.host,
                        address.port,
                        LIMITS,
                        drain_seconds=2.0,
                    )
                )
            except OSError as error:
                raise SettingsError(
                    f"cannot listen on control address {address}: {error.strerror or error}"
                ) from None
            yield


@contextlib.asynccontextmanager
async def running(envoy: EnvoyProcess, failed: asyncio.Event) -> AsyncIterator[None]:
    """Keep Envoy running while the block runs; sets `failed` if that cannot be done."""
    with sole(envoy.run_dir, "envoy"):
        supervisor = asyncio.create_task(envoy.run())
        supervisor.add_done_callback(lambda _: failed.set())
        try:
            yield
        finally:
            await envoy.stop()
            await supervisor
