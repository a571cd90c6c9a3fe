"""The half of sessions: what they do in the hub, and their routes over it."""

from __future__ import annotations

from collections.abc import Sequence

from litestar import Router

from edgewise.server.hub_half import HttpContext, HubContext, HubHalf
from edgewise.server.identity import client_tokens
from edgewise.server.routes.sessions.actions import ACTIONS
from edgewise.server.routes.sessions.clients import client_routes
from edgewise.server.routes.sessions.context import RouteContext
from edgewise.server.routes.sessions.events import event_routes
from edgewise.server.routes.sessions.locations import location_routes
from edgewise.server.routes.sessions.problems import PATTERNS, PROBLEMS
from edgewise.server.routes.sessions.sessions import session_routes
from edgewise.sessions.hub.half import SessionsHalf


def build(context: HubContext) -> SessionsHalf:
    half = SessionsHalf(
        context.registry,
        context.connections,
        token_seconds=client_tokens.LIFETIME_SECONDS,
        replica=context.replica,
        clock=context.clock,
    )
    # Who is no longer welcome is told so at once, and not at the next change.
    context.credentials.on_change(half.hub_view.changes.wake_all)
    return half


def routes(half: SessionsHalf, context: HttpContext) -> Sequence[Router]:
    server = RouteContext(half, context.guard, context.credentials, context.clock)
    return [
        session_routes(server),
        client_routes(server),
        event_routes(server),
        location_routes(server),
    ]


SESSIONS = HubHalf(
    name="sessions",
    build=build,
    actions=ACTIONS,
    routes=routes,
    problems=PROBLEMS,
    patterns=PATTERNS,
    prepare=SessionsHalf.prepare,
    tasks=SessionsHalf.tasks,
    duties=SessionsHalf.duties,
    heaviest=SessionsHalf.heaviest,
    show_metrics=SessionsHalf.show_metrics,
    close=SessionsHalf.close,
)
