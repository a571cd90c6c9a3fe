"""The program put together: watches, intake, and the listener that the operator asks."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from edgewise.agents.reports.broker import Broker, BrokerError, running_broker
from edgewise.agents.reports.cluster import ClusterView
from edgewise.agents.reports.intake import Intake
from edgewise.errors import ReadableError
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.errors import KubeError
from edgewise.placement.broker_url import BrokerUrl
from edgewise.placement.listening import PATH
from edgewise.placement.reports import Reports, Verdict
from edgewise.placement.reports_secret import (
    NAME,
    PING_PORT,
    ReportsAccess,
    announce,
    is_replaced,
)
from edgewise.runtime.health_server import Handler, HealthServer
from edgewise.runtime.metrics import Metrics

LONGEST_WAIT = 30.0
# How soon it is noticed that the Secret was deleted or written anew.
SECRET_SECONDS = 10.0

_log = logging.getLogger(__name__)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    bind: str = ""  # empty: the address from which the API server is reached
    port: int = 0
    broker: BrokerUrl | None = None  # None: a mosquitto of our own
    broker_port: int = 0
    advertise: str = ""  # where the operator finds us, if not at the address above
    public_broker: str = ""  # where clients find the broker, if not where we do
    ping_port: int = PING_PORT  # of the nodes, for placements with mode Probe


def address_towards(server: str) -> str:
    """The address of this machine that leads to a server: so whoever reaches it reaches us."""
    parts = urlsplit(server)
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


async def run_reports(access: Access, options: Options, ended: asyncio.Event) -> None:
    """Until told to end. A broker of its own that ends, ends it."""
    try:
        await _run(access, options, ended)
    except* (BrokerError, SecretReplaced) as errors:
        raise errors.exceptions[0] from None


class SecretReplaced(ReadableError):
    """Keys are derived from another secret now, and the operator has another token."""


async def _until_replaced(client: Client, namespace: str, known: ReportsAccess) -> None:
    """Raises then: the program ends, and is started again with what the Secret has."""
    while True:
        await asyncio.sleep(SECRET_SECONDS)
        with contextlib.suppress(KubeError):  # the API server is away: nothing can be known
            if await is_replaced(client, namespace, known):
                raise SecretReplaced(
                    f"the Secret {namespace}/{NAME} was deleted or has another key: start "
                    "the program for reports again"
                )


async def _run(access: Access, options: Options, ended: asyncio.Event) -> None:
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(access, user_agent="edgewise-reports"))
        host = options.bind or address_towards(access.server)
        broker, public, own = await _broker(stack, options, host)
        tell = partial(
            announce, client, options.namespace, broker=public, ping_port=options.ping_port
        )
        known = await tell(url="")
        reports = Reports(known.key, boot=secrets.token_hex(8))
        metrics = Metrics()
        metrics.registry.register(ReportsCollector(reports))
        view = ClusterView(client, reports, metrics)
        intake = Intake(reports, broker)
        health = HealthServer(
            metrics,
            host=host,
            port=options.port,
            ready={"broker": lambda: intake.trouble},
            handlers=(Handler("GET", PATH, _answering(reports, intake, known.token)),),
        )
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(view.caches.run(), name="watches"),
                tasks.create_task(intake.run(), name="intake"),
                tasks.create_task(_until_replaced(client, options.namespace, known), name="secret"),
                # Without its broker the program ends, and is started again with both.
                *([tasks.create_task(own.wait_for_end(), name="broker")] if own else []),
            ]
            try:
                await view.caches.wait_synced()
                async with health.running():
                    shown = f"[{host}]" if ":" in host else host
                    url = options.advertise or f"http://{shown}:{health.port}"
                    await tell(url=url)
                    _log.info("summaries at %s, clients publish to %s", url, public or "nothing")
                    await ended.wait()
            finally:
                for task in running:
                    task.cancel()


async def _broker(
    stack: contextlib.AsyncExitStack, options: Options, host: str
) -> tuple[BrokerUrl, str, Broker | None]:
    """Where we read, where clients publish, and the broker if it is our own."""
    if options.broker is not None:
        return options.broker, options.public_broker or repr(options.broker), None
    own = await stack.enter_async_context(running_broker(host, options.broker_port))
    shown = f"[{host}]" if ":" in host else host
    at = BrokerUrl(host="127.0.0.1", port=own.private)
    return at, options.public_broker or f"mqtt://{shown}:{own.public}", own


def _answering(
    reports: Reports, intake: Intake, token: str
) -> Callable[[web.Request], Awaitable[web.Response]]:
    wanted = f"Bearer {token}".encode()

    async def answer(request: web.Request) -> web.Response:
        # Bytes that are no UTF-8 come as surrogates.
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if not hmac.compare_digest(given, wanted):
            return web.Response(status=401, text="who are you?\n")
        try:
            after = int(request.query.get("after", "0"))
            wait = min(LONGEST_WAIT, max(0.0, float(request.query.get("wait", "0"))))
        except ValueError:
            return web.Response(status=400, text="after and wait are numbers\n")
        if not intake.connected:
            return web.Response(status=503, text=f"{intake.trouble}\n")
        await intake.wait_for_news(after, wait)
        summary = reports.summary(after, time.time())
        return web.Response(body=msgspec.json.encode(summary), content_type="application/json")

    return answer


class ReportsCollector(Collector):
    """Counted when asked for."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def collect(self) -> Iterable[Metric]:
        counted = CounterMetricFamily(
            "edgewise_placement_reports", "Reports by verdict.", labels=["verdict"]
        )
        for verdict in Verdict:
            counted.add_metric([verdict], self._reports.verdicts[verdict])
        clients = GaugeMetricFamily(
            "edgewise_placement_clients", "Clients that have reported lately."
        )
        clients.add_metric([], self._reports.clients())
        return (counted, clients)
