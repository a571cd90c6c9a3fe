"""The HTTP API put together."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from litestar import Litestar
from litestar.config.cors import CORSConfig
from litestar.routes import HTTPRoute

from edgewise.errors import ReadableError
from edgewise.server.http.guard import Guard, Rates
from edgewise.server.http.openapi import SCHEMA_PATH, openapi_config, openapi_routes
from edgewise.server.http.page import page_routes
from edgewise.server.http.problems import handlers
from edgewise.server.http.request_ids import RequestIds
from edgewise.server.http.wellness import wellness_routes
from edgewise.server.hub_half import HttpContext, actions_of
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.replica import Replica

LARGEST_BODY = 64 * 1024


class RouteWithoutAction(ReadableError):
    """A route of a half that nobody could ever use; it is said when the server starts."""


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    rates: Rates = Rates()
    # Pages of these origins may call the API from a browser.
    origins: Sequence[str] = ()


def create_app(
    replica: Replica, authenticator: Authenticator, settings: HttpSettings | None = None
) -> RequestIds:
    """The routes of all halves of a replica, and the server's own."""
    settings = settings or HttpSettings()
    guard = Guard(authenticator, actions_of(replica.halves), settings.rates)
    context = HttpContext(guard=guard, credentials=replica.credentials, clock=replica.clock)
    cors = CORSConfig(
        allow_origins=list(settings.origins),
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID"],
        expose_headers=["X-Request-Id", "Retry-After"],
        max_age=3600,
    )
    app = Litestar(
        route_handlers=[
            *(
                router
                for half in replica.halves
                for router in half.routes(replica.of(half), context)
            ),
            wellness_routes(replica),
            openapi_routes(),
            page_routes(),
        ],
        guards=[guard],
        exception_handlers=handlers(
            [kind for half in replica.halves for kind in half.problems],
            {each: said for half in replica.halves for each, said in half.patterns.items()},
        ),
        request_max_body_size=LARGEST_BODY,
        cors_config=cors if settings.origins else None,
        openapi_config=openapi_config(),
        debug=False,
        # Ours is the only voice in the log.
        logging_config=None,
    )
    check_actions(app, guard)
    return RequestIds(app)


def check_actions(app: Litestar, guard: Guard) -> None:
    """Nobody finds out by a refusal, months later, that a route forgot to say what it does."""
    forgotten = sorted(
        f"{method} {route.path}"
        for route in app.routes
        if isinstance(route, HTTPRoute) and not route.path.startswith(SCHEMA_PATH)
        for method, (handler, _) in route.route_handler_map.items()
        if method != "OPTIONS" and not handler.opt.get("open") and guard.action_of(handler) is None
    )
    if forgotten:
        raise RouteWithoutAction(
            f"no action of any domain is named by {', '.join(forgotten)}: name one that is in "
            "the domain's table"
        )
