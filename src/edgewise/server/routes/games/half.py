"""The half of games: what they do in the hub, and their routes over it."""

from __future__ import annotations

from collections.abc import Sequence

from litestar import Router

from edgewise.gameservers.hub.half import GamesHalf
from edgewise.server.hub_half import HttpContext, HubContext, HubHalf
from edgewise.server.routes.games.actions import ACTIONS
from edgewise.server.routes.games.allocations import allocation_routes
from edgewise.server.routes.games.context import RouteContext
from edgewise.server.routes.games.objects import object_routes
from edgewise.server.routes.games.problems import PATTERNS, PROBLEMS


def build(context: HubContext) -> GamesHalf:
    return GamesHalf(
        context.registry.client,
        context.namespace,
        patience=context.link.patience,
        metrics=context.metrics,
        replica=context.replica,
        clock=context.clock,
    )


def routes(half: GamesHalf, context: HttpContext) -> Sequence[Router]:
    del context
    server = RouteContext(half)
    return [allocation_routes(server), *object_routes(server)]


GAMES = HubHalf(
    name="games",
    build=build,
    actions=ACTIONS,
    routes=routes,
    problems=PROBLEMS,
    patterns=PATTERNS,
    tasks=GamesHalf.tasks,
    duties=GamesHalf.duties,
    show_metrics=GamesHalf.show_metrics,
    close=GamesHalf.close,
)
