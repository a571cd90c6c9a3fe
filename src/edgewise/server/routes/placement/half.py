"""The half of placement: keys and reports, and its routes."""

from __future__ import annotations

from collections.abc import Sequence

from litestar import Router

from edgewise.placement.hub.half import PlacementHalf
from edgewise.server.hub_half import HttpContext, HubContext, HubHalf
from edgewise.server.routes.placement.actions import ACTIONS
from edgewise.server.routes.placement.placements import NAME, NAME_RULE, placement_routes


def build(context: HubContext) -> PlacementHalf:
    return PlacementHalf(context.connections, clock=context.clock)


def routes(half: PlacementHalf, _: HttpContext) -> Sequence[Router]:
    return [placement_routes(half)]


PLACEMENT = HubHalf(
    name="placement",
    build=build,
    actions=ACTIONS,
    routes=routes,
    patterns={NAME: NAME_RULE},
    tasks=PlacementHalf.tasks,
)
