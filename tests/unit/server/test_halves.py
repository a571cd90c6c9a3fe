"""The halves of the server: what the tuple must be, and that every route says what it does."""

from __future__ import annotations

import pytest

from edgewise.server.halves import HALVES
from edgewise.server.http.app import RouteWithoutAction
from edgewise.server.hub_half import ClashingHalves, Halves, actions_of
from edgewise.server.identity.permissions import Action
from edgewise.server.routes.sessions import actions
from tests.unit.server.halves import RING, app_of, half

OPEN = {"open": True}

REFUSED: dict[str, tuple[Halves, type[Exception], str]] = {
    "a route that names no action": (
        [half("toy", (RING,), summary="Bells")],
        RouteWithoutAction,
        "GET /v1/bells",
    ),
    "a route whose action is in no table": (
        [half("toy", (), action=RING)],
        RouteWithoutAction,
        "GET /v1/bells",
    ),
    "a route that names its action by a text": (
        [half("toy", (RING,), action="ring a bell")],
        RouteWithoutAction,
        "GET /v1/bells",
    ),
    "two halves of one name": (
        [half("toy"), half("toy")],
        ClashingHalves,
        "the half 'toy' is there twice",
    ),
    "one action in two tables": (
        [half("toy", (RING,)), half("other", (Action("ring a bell", {}),))],
        ClashingHalves,
        "the action 'ring a bell' is there twice",
    ),
    "an action of a name that sessions have": (
        [*HALVES, half("toy", (Action(actions.JOIN.name, {}),))],
        ClashingHalves,
        "the action 'join' is there twice",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_the_server_does_not_start_with(case: str) -> None:
    halves, error, says = REFUSED[case]
    with pytest.raises(error, match=says):
        await app_of(halves)


async def test_every_route_of_the_server_names_an_action_or_is_open() -> None:
    app = (await app_of(HALVES)).app
    table = actions_of(HALVES)
    silent = [
        (method, route.path)
        for route in app.routes
        for method, (handler, _) in getattr(route, "route_handler_map", {}).items()
        if method not in ("OPTIONS", "HEAD")
        and not handler.opt.get("open")
        and getattr(handler.opt.get("action"), "name", None) not in table
    ]
    # The framework's own page about the schema, which is closed to everybody.
    assert [path for _, path in silent if not path.startswith("/schema")] == []
    assert len(app.routes) > 10


async def test_what_a_half_serves_is_served_beside_the_others() -> None:
    app = (await app_of([*HALVES, half("toy", (RING,), action=RING)])).app
    assert {"/v1/bells", "/v1/sessions", "/readyz"} <= {route.path for route in app.routes}
    alone = (await app_of([half("toy", **OPEN)])).app
    served = {route.path for route in alone.routes}
    assert {"/v1/bells", "/readyz"} <= served
    assert "/v1/sessions" not in served
