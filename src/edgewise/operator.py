"""The operator: builds its domains for one cluster, and runs what they are made of."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from edgewise.domain import Built, Context, Domain, Flag, check_built, check_domains
from edgewise.errors import ReadableError
from edgewise.exposure.found_gateways import FoundGateways
from edgewise.exposure.port_range import PortRange
from edgewise.exposure.publishing import (
    Gateway,
    GatewayPublisher,
    RoutePublisher,
    TrustingPublisher,
    token_in,
)
from edgewise.exposure.seat_key import seat_key
from edgewise.exposure.site import Site, known_gateway_kinds
from edgewise.gameservers.domain import GAMESERVERS
from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError, NotFound
from edgewise.kube.kinds.endpoints import EndpointSlice
from edgewise.kube.objects import Key
from edgewise.placement.domain import PLACEMENT
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.manager import Election, Listen, Manager, on_signals
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.tasks import Task
from edgewise.runtime.webhooks.reviewing import Reviewing, reviewing
from edgewise.runtime.webhooks.serving import Target
from edgewise.sessions.domain import SESSIONS
from edgewise.tenancy.domain import TENANCY

DOMAINS: tuple[Domain, ...] = (SESSIONS, GAMESERVERS, PLACEMENT, TENANCY)

NAMESPACE = "edgewise-system"
LEASE = "edgewise-operator"
CERTIFICATES_SECRET = "edgewise-webhook-certificates"  # noqa: S105 - the name of it
WEBHOOKS = "edgewise"

# How often CRDs are looked for that somebody waits for, and those that nobody asked for.
WAITED_FOR_EVERY = 1.0
LEFT_OUT_EVERY = 30.0

_log = logging.getLogger(__name__)


class OperatorError(ReadableError):
    """The operator cannot start, with what to do about it."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator is told when it starts."""

    namespace: str = NAMESPACE
    domains: tuple[str, ...] = ()  # by name; empty: all whose CRDs are there
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
    flags: Mapping[str, Flag] = {}  # of the domains, by name; what is not here is as by default


async def run_operator(
    client: Client, options: Options, domains: Sequence[Domain] = DOMAINS
) -> None:
    """Run until a signal asks for the end."""
    check_domains(domains)
    wanted = chosen(domains, options.domains)
    ending = Ending()
    with on_signals(ending.begin):
        try:
            while not ending.begun and await _run(client, options, wanted, ending):
                pass
        except asyncio.CancelledError:
            if not ending.begun:
                raise


class Ending:
    """What a signal does: from one manager to the next, and before the first, as well."""

    def __init__(self) -> None:
        self.begun = False
        self._task = asyncio.current_task()
        self._manager: Manager | None = None

    def begin(self) -> None:
        self.begun = True
        if self._manager is not None:
            self._manager.stop()
        elif self._task is not None:
            self._task.cancel()

    async def run(self, manager: Manager) -> None:
        self._manager = manager
        try:
            await manager.run(signals=False)
        finally:
            self._manager = None


def chosen(domains: Sequence[Domain], names: Iterable[str]) -> tuple[Domain, ...]:
    """The domains with these names; without names, all."""
    known = {domain.name: domain for domain in domains}
    asked = list(dict.fromkeys(names))
    for name in asked:
        if name not in known:
            raise OperatorError(f"there is no domain {name!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in asked) if asked else tuple(domains)


async def _run(client: Client, options: Options, domains: Sequence[Domain], ending: Ending) -> bool:
    """Run the domains whose CRDs are there; whether to begin again, because more are now.

    Beginning again is an orderly end and a start, as at an upgrade: caches, queues and the
    lease are handed over in the way that is tried every day.
    """
    waiting = Waiting(await absent(client, domains), domains, named=bool(options.domains))
    for sentence in waiting.sentences():
        _log.warning("%s", sentence)
    metrics, again = Metrics(), asyncio.Event()
    found = FoundGateways(options.namespace)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        caches = SharedCaches(client, metrics=metrics)
        context = Context(
            client=client,
            caches=caches,
            metrics=metrics,
            http=http,
            namespace=options.namespace,
            site=await _site(client, options),
            publisher=publisher_of(options, found, http),
            options={},
        )
        built = [
            _built(each, context, options) for each in domains if each.name not in waiting.kinds
        ]

        async def look_for_crds() -> None:
            while True:
                await asyncio.sleep(waiting.look_every)
                if await waiting.fewer(client):
                    again.set()
                    manager.stop()
                    return

        manager = Manager(
            client,
            [controller for each in built for controller in each.controllers],
            name=LEASE,
            election=Election(LEASE, options.namespace) if options.leader_election else None,
            listen=options.listen,
            metrics=metrics,
            caches=caches,
            leader_tasks=[task for each in built for task in each.leader_tasks],
            replica_tasks=[
                *(task for each in built for task in each.replica_tasks),
                *([Task("look for CRDs", look_for_crds)] if waiting.kinds else []),
            ],
            handlers=[handler for each in built for handler in each.handlers],
            ready={"domains": waiting.not_ready},
        )
        found.follow(caches.of(EndpointSlice, found.selection))
        async with _reviewing(client, options, built, metrics):
            await ending.run(manager)
    return again.is_set()


def _built(domain: Domain, context: Context, options: Options) -> Built:
    flags = {each.name: options.flags.get(each.name, each.default) for each in domain.options}
    return check_built(domain, domain.build(msgspec.structs.replace(context, options=flags)))


def _reviewing(
    client: Client, options: Options, built: Iterable[Built], metrics: Metrics
) -> contextlib.AbstractAsyncContextManager[None]:
    hooks: list[Any] = [hook for each in built for hook in each.webhooks]
    if options.webhooks is None or not hooks:
        return contextlib.nullcontext()
    how = Reviewing(
        name=WEBHOOKS,
        certificates=Key(options.namespace, CERTIFICATES_SECRET),
        target=options.webhooks,
        port=options.webhook_port,
    )
    return reviewing(client, hooks, how, metrics)


# CRDs that are not there ----------------------------------------------------------------


class Waiting:
    """Domains that cannot be served yet, and the kinds that each of them misses."""

    def __init__(
        self, kinds: Mapping[str, Sequence[str]], domains: Sequence[Domain], *, named: bool
    ) -> None:
        self.kinds = kinds
        self._domains = [each for each in domains if each.name in kinds]
        self._named = named
        self._none = len(kinds) == len(domains)

    @property
    def look_every(self) -> float:
        return WAITED_FOR_EVERY if self._named or self._none else LEFT_OUT_EVERY

    def sentences(self) -> list[str]:
        does = "waits for its CRDs" if self._named else "is left out until its CRDs are there"
        return [f"{name} {does}: {', '.join(kinds)}" for name, kinds in self.kinds.items()]

    async def fewer(self, client: Client) -> bool:
        """Whether one of them could be served now."""
        try:
            return len(await absent(client, self._domains)) < len(self._domains)
        except KubeError:
            return False  # whatever keeps us from it keeps the caches too, and they say so

    def not_ready(self) -> str:
        """A domain that was named is a condition of readiness, and one at least has to be there."""
        return "; ".join(self.sentences()) if self._named or self._none else ""


async def absent(client: Client, domains: Iterable[Domain]) -> dict[str, list[str]]:
    """The names of the CRDs that the API server does not serve, by domain.

    By discovery, which every account may use.
    """
    found: dict[str, list[str]] = {}
    for domain in domains:
        for kind in (each.KIND for each in domain.kinds):
            try:
                await client.kind_of(kind.api_version, kind.kind)
            except NotFound:
                found.setdefault(domain.name, []).append(f"{kind.plural}.{kind.group}")
    return found


# What the domains share -----------------------------------------------------------------


async def _site(client: Client, options: Options) -> Site:
    return Site(
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


def publisher_of(
    options: Options, found: FoundGateways, http: aiohttp.ClientSession
) -> RoutePublisher:
    """Without a token no gateway would listen: what is written counts as published."""
    if options.token_file is None:
        return TrustingPublisher()
    given = [Gateway(url) for url in options.gateways]
    return GatewayPublisher(lambda: [*given, *found.now()], token_in(options.token_file), http)
