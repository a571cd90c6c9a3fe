"""The operator: wires the controllers of every domain to one cluster, and runs them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import aiohttp
import msgspec

from edgewise.api.sessions import SessionTemplate
from edgewise.kube.admission import ValidatingWebhookConfiguration
from edgewise.kube.client import Client
from edgewise.kube.core import Namespace, Secret
from edgewise.kube.endpoints import EndpointSlice
from edgewise.kube.errors import AlreadyExists, NotFound
from edgewise.kube.objects import Key
from edgewise.runtime.cache import Cache
from edgewise.runtime.certificates import CertificateKeeper
from edgewise.runtime.manager import Election, Listen, Manager
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.selection import Selection
from edgewise.runtime.shared_caches import SharedCaches
from edgewise.runtime.webhooks import AdmissionMetrics, Target, WebhookServer, configurations
from edgewise.sessions.admission import webhooks
from edgewise.sessions.books import Books, by_template
from edgewise.sessions.child_kinds import GATEWAY_KINDS
from edgewise.sessions.controller import SessionController
from edgewise.sessions.held import HeldSession
from edgewise.sessions.metrics import SessionMetrics
from edgewise.sessions.publish import (
    Gateway,
    GatewayPublisher,
    RoutePublisher,
    TrustingPublisher,
)
from edgewise.sessions.resetting import PodCleaner
from edgewise.sessions.site import PortRange, Site
from edgewise.sessions.template_controller import TemplateController

NAMESPACE = "edgewise-system"
LEASE = "edgewise-operator"
SEAT_KEY_SECRET = "edgewise-seat-key"  # noqa: S105 - the name of it
SEAT_KEY = "key"
CERTIFICATES_SECRET = "edgewise-webhook-certificates"  # noqa: S105 - the name of it
WEBHOOKS = "edgewise"
SEAT_KEY_BYTES = 32
# The headless Service whose endpoints are the control ports of the gateways.
GATEWAYS = "edgewise-gateway-control"


class OperatorError(Exception):
    """The operator cannot start, with what to do about it."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator is told when it starts."""

    namespace: str = NAMESPACE
    listen: Listen = Listen(port=8081)
    leader_election: bool = True
    public_url: str = "http://127.0.0.1:8080"
    public_host: str = "127.0.0.1"
    domain: str = ""
    domain_port: int = 0
    ports: PortRange = PortRange()
    node_host: str = ""
    gateway_api: str = ""  # namespace/name of the Gateway; empty: its kinds are not watched
    gateways: tuple[str, ...] = ()  # control ports to push to, beside those that are found
    token_file: Path | None = None  # without it nobody is told of routes
    webhooks: Target | None = None  # where the API server finds us; without it nothing is reviewed
    webhook_port: int = 9443


async def run_operator(client: Client, options: Options) -> None:
    """Run until a signal asks for the end."""
    site = Site(
        seat_key=await seat_key(client, options.namespace),
        public_url=options.public_url,
        public_host=options.public_host,
        domain=options.domain,
        domain_port=options.domain_port,
        ports=options.ports,
        node_host=options.node_host,
        gateway=options.gateway_api,
        gateway_kinds=await known_gateway_kinds(client) if options.gateway_api else frozenset(),
    )
    metrics = Metrics()
    session_metrics = SessionMetrics(metrics.registry)
    found = FoundGateways(options.namespace)
    async with aiohttp.ClientSession() as http:
        books = Books(site)
        cleaner = PodCleaner(client, http)
        sessions = SessionController(
            books,
            publisher_of(options, found, http),
            cleaner,
            metrics=session_metrics,
        )
        templates = TemplateController(books, cleaner, metrics=session_metrics)
        election = Election(LEASE, options.namespace) if options.leader_election else None
        manager = Manager(
            client,
            [sessions, templates],
            name=LEASE,
            election=election,
            listen=options.listen,
            metrics=metrics,
        )
        found.follow(manager.caches.of(EndpointSlice, found.selection))
        sessions.wake, templates.wake = (workers.queue.add for workers in manager.workers)
        async with reviewing(client, manager.caches, options, metrics):
            try:
                await manager.run()
            finally:
                await sessions.resets.stop()
                await templates.resets.stop()


async def known_gateway_kinds(client: Client) -> frozenset[str]:
    """A kind that is not there cannot be watched; whoever needs it is told so."""
    found = set()
    for each in GATEWAY_KINDS:
        with contextlib.suppress(NotFound):
            found.add((await client.kind_of(each.KIND.api_version, each.KIND.kind)).kind)
    return frozenset(found)


@contextlib.asynccontextmanager
async def reviewing(
    client: Client, caches: SharedCaches, options: Options, metrics: Metrics
) -> AsyncIterator[None]:
    """Serve the webhooks, on every replica, for as long as the block runs."""
    target = options.webhooks
    if target is None:
        yield
        return
    hooks = webhooks(KnownByCache(client, caches))
    for configuration in configurations(WEBHOOKS, hooks, target):
        await client.apply(configuration)
    keeper = CertificateKeeper(
        client,
        Key(options.namespace, CERTIFICATES_SECRET),
        names=target.host_names(),
        configurations=[(ValidatingWebhookConfiguration, WEBHOOKS)],
    )
    await keeper.ensure()
    server = WebhookServer(
        hooks,
        keeper.context,
        port=options.webhook_port,
        metrics=AdmissionMetrics(metrics.registry),
    )
    async with server:
        keeping = asyncio.create_task(keeper.run())
        try:
            yield
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping


class KnownByCache:
    """Answers the reviewers from the caches; a template that was made just now is asked for."""

    def __init__(self, client: Client, caches: SharedCaches) -> None:
        self._client = client
        self._templates = caches.of(SessionTemplate)
        self._sessions = caches.of(HeldSession)

    async def template(self, namespace: str, name: str) -> SessionTemplate | None:
        found = self._templates.find(name, namespace)
        if found is not None:
            return found
        try:
            return await self._client.get(SessionTemplate, name, namespace)
        except NotFound:
            return None

    def sessions_of(self, namespace: str, template: str) -> int:
        if not self._sessions.synced:
            # Fail closed: whoever has not seen the sessions cannot say that there is room.
            raise OperatorError("the sessions are not known yet; try again in a moment")
        return len(self._sessions.by(by_template, f"{namespace}/{template}"))


async def seat_key(client: Client, namespace: str) -> bytes:
    """The key from which all addresses of seats are made: created once, then kept for ever."""
    for _ in range(2):
        try:
            secret = await client.get(Secret, SEAT_KEY_SECRET, namespace)
        except NotFound:
            await create_seat_key(client, namespace)
            continue
        key = secret.data.get(SEAT_KEY, b"")
        if len(key) < SEAT_KEY_BYTES // 2:
            raise OperatorError(
                f"the Secret {namespace}/{SEAT_KEY_SECRET} has no usable `{SEAT_KEY}`: delete the "
                "Secret to have a new one made (every address of a seat changes with it)"
            )
        return key
    raise OperatorError(f"the Secret {namespace}/{SEAT_KEY_SECRET} vanished while it was read")


async def create_seat_key(client: Client, namespace: str) -> None:
    secret = Secret.named(SEAT_KEY_SECRET, namespace)
    secret.data = {SEAT_KEY: secrets.token_bytes(SEAT_KEY_BYTES)}
    with contextlib.suppress(AlreadyExists):  # by another replica, at the same time
        try:
            await client.create(secret)
        except NotFound:  # the namespace is not there: nobody installed the chart
            with contextlib.suppress(AlreadyExists):
                await client.create(Namespace.named(namespace))
            await client.create(secret)


class FoundGateways:
    """The control ports of the gateways that run in the cluster now."""

    def __init__(self, namespace: str) -> None:
        self.selection = Selection(
            namespace=namespace, labels=f"kubernetes.io/service-name={GATEWAYS}"
        )
        self._cache: Cache[EndpointSlice] | None = None

    def follow(self, cache: Cache[EndpointSlice]) -> None:
        self._cache = cache

    def now(self) -> list[Gateway]:
        if self._cache is None:
            return []
        return [gateway for piece in self._cache for gateway in gateways_in(piece)]


def gateways_in(piece: EndpointSlice) -> Iterable[Gateway]:
    """Those that are not ready yet are told too: they become it by knowing the routes."""
    for endpoint in piece.endpoints or ():
        if endpoint.conditions.terminating:
            continue
        for port in piece.ports or ():
            for address in endpoint.addresses:
                host = f"[{address}]" if ":" in address else address
                serving = endpoint.conditions.ready is not False
                yield Gateway(f"http://{host}:{port.port}", serving)


def publisher_of(
    options: Options, found: FoundGateways, http: aiohttp.ClientSession
) -> RoutePublisher:
    """Without a token no gateway would listen: what is written counts as published."""
    if options.token_file is None:
        return TrustingPublisher()
    given = [Gateway(url) for url in options.gateways]
    return GatewayPublisher(lambda: [*given, *found.now()], token_in(options.token_file), http)


def token_in(file: Path) -> Callable[[], str]:
    """Reads the token anew each time it was changed, as Kubernetes does with mounted Secrets."""
    seen: tuple[float, str] = (-1.0, "")

    def token() -> str:
        nonlocal seen
        changed = file.stat().st_mtime
        if changed != seen[0]:
            seen = (changed, file.read_text(encoding="utf-8").strip())
        return seen[1]

    return token
