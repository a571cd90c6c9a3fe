"""Small halves of the server for tests, and an app of them that runs nowhere."""

from __future__ import annotations

from typing import Any

from litestar import Router, get

from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.server.http.app import create_app
from edgewise.server.http.request_ids import RequestIds
from edgewise.server.hub_half import Halves, HubHalf
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.identity.permissions import Action, Reach
from edgewise.server.identity.principal import Role
from edgewise.server.replica import Replica, Settings

RING = Action("ring a bell", {Role.ADMIN: Reach.ALL})


async def app_of(halves: Halves) -> RequestIds:
    async with Client(Access(server="http://unused.invalid")) as client:
        replica = Replica(client, Settings(), halves)
        return create_app(replica, Authenticator(replica.credentials))


def half(name: str, actions: tuple[Action, ...] = (), **route: Any) -> HubHalf[None]:
    """With one route, if anything is said about it."""

    @get("/v1/bells", **route)
    async def bells() -> list[str]:
        return []

    return HubHalf(
        name=name,
        build=lambda _: None,
        actions=actions,
        routes=lambda _, __: [Router("/", route_handlers=[bells])] if route else [],
    )
