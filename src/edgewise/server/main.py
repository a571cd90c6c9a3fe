"""The whole server: a replica, its API and its metrics, from start to an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal

import msgspec
from prometheus_client import REGISTRY

from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.runtime.health_server import HealthServer
from edgewise.runtime.metrics import Metrics
from edgewise.server.halves import HALVES
from edgewise.server.http.app import HttpSettings, create_app
from edgewise.server.http.serving import Listen, serving
from edgewise.server.hub_half import Halves
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.identity.issuer_keys import IssuerKeys, fetch_over_http
from edgewise.server.identity.oidc import Oidc, OidcSettings
from edgewise.server.replica import Replica, Settings

# A write to the hub that takes longer is answered with "try again".
HUB_SECONDS = 5.0
HUB_CONNECTIONS = 128

_log = logging.getLogger(__name__)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings = Settings()
    listen: Listen = Listen()
    http: HttpSettings = HttpSettings()
    metrics: tuple[str, int] | None = None
    oidc: OidcSettings | None = None


async def run(access: Access, options: Options, halves: Halves = HALVES) -> None:
    """Serve these domains until SIGINT or SIGTERM."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client(
                access,
                user_agent="edgewise-server",
                connections=HUB_CONNECTIONS,
                timeout=HUB_SECONDS,
            )
        )
        metrics = Metrics(REGISTRY)
        replica = Replica(client, options.settings, halves, metrics=metrics)
        await stack.enter_async_context(replica.running())
        if options.metrics is not None:
            host, port = options.metrics
            replica.show_metrics(REGISTRY)
            await stack.enter_async_context(HealthServer(metrics, host=host, port=port).running())
        oidc = None
        if options.oidc is not None:
            oidc = Oidc(options.oidc, IssuerKeys(options.oidc.issuer, fetch_over_http))
        app = create_app(replica, Authenticator(replica.credentials, oidc), options.http)
        port = await stack.enter_async_context(serving(app, options.listen, at_end=replica.close))
        scheme = "https" if options.listen.tls else "http"
        _log.info("serving on %s://%s:%d", scheme, options.listen.host, port)
        await ended.wait()
        _log.info("ending")
