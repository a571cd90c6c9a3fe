"""The HTTP API put together."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from litestar import Litestar
from litestar.config.cors import CORSConfig
from litestar.exceptions import HTTPException

from edgewise.server.http.client_routes import client_routes
from edgewise.server.http.doorway import Doorway, Rates
from edgewise.server.http.event_routes import event_routes
from edgewise.server.http.fleet_routes import fleet_routes
from edgewise.server.http.openapi import openapi_config, openapi_routes
from edgewise.server.http.page import page_routes
from edgewise.server.http.problems import HANDLED, handle_depth, handle_http, handle_unknown
from edgewise.server.http.request_ids import RequestIds
from edgewise.server.http.server import Server
from edgewise.server.http.session_routes import session_routes
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.replica import Replica

LARGEST_BODY = 64 * 1024


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    rates: Rates = Rates()
    # Pages of these origins may call the API from a browser.
    origins: Sequence[str] = ()


def create_app(
    replica: Replica, authenticator: Authenticator, settings: HttpSettings | None = None
) -> RequestIds:
    settings = settings or HttpSettings()
    doorway = Doorway(authenticator, settings.rates)
    server = Server(replica, doorway)
    cors = CORSConfig(
        allow_origins=list(settings.origins),
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID"],
        expose_headers=["X-Request-Id", "Retry-After"],
        max_age=3600,
    )
    app = Litestar(
        route_handlers=[
            session_routes(server),
            client_routes(server),
            event_routes(server),
            fleet_routes(server),
            openapi_routes(),
            page_routes(),
        ],
        guards=[doorway],
        exception_handlers={
            **HANDLED,
            HTTPException: handle_http,
            RecursionError: handle_depth,
            Exception: handle_unknown,
        },
        request_max_body_size=LARGEST_BODY,
        cors_config=cors if settings.origins else None,
        openapi_config=openapi_config(),
        debug=False,
        # Ours is the only voice in the log.
        logging_config=None,
    )
    return RequestIds(app)
