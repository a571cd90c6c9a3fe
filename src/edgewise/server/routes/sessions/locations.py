"""Locations and templates."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Router, get, patch
from litestar.params import JSONBody

from edgewise.api.global_sessions import Location
from edgewise.kube.errors import KubeError, NotFound
from edgewise.runtime.errors import NotThere
from edgewise.server.http.guard import principal_of
from edgewise.server.identity.principal import Role
from edgewise.server.routes.sessions import actions
from edgewise.server.routes.sessions.context import RouteContext
from edgewise.server.routes.sessions.parameters import LocationName
from edgewise.server.routes.sessions.problems import documented
from edgewise.sessions.hub.errors import HubUnreachable
from edgewise.sessions.hub.views import LocationView, TemplateView, view_template


class Locations(msgspec.Struct):
    items: list[LocationView]


class Templates(msgspec.Struct):
    items: list[TemplateView]


class LocationChange(msgspec.Struct, forbid_unknown_fields=True):
    cordoned: bool
    """True: no new clients, while those who are there stay."""


def location_routes(server: RouteContext) -> Router:
    half = server.half

    @get(
        "/v1/locations",
        action=actions.READ_LOCATIONS,
        summary="Where clients can be",
        description="With the address to measure the distance to, load, free capacity and health. "
        "Clients are not told for which templates a location is degraded.",
        responses=documented(401, 403, 429, 503),
        tags=["locations"],
    )
    async def locations(request: Request[Any, Any, Any]) -> Locations:
        found = half.hub_view.locations()
        if principal_of(request).role is Role.CLIENT:
            # It comes with the words of operators, about templates of other applications, too.
            found = [msgspec.structs.replace(each, degraded={}) for each in found]
        return Locations(items=found)

    @patch(
        "/v1/locations/{location:str}",
        action=actions.CORDON,
        summary="Cordon a location, or open it again",
        responses=documented(400, 401, 403, 404, 413, 429, 503),
        tags=["locations"],
    )
    async def cordon(location: LocationName, data: JSONBody[LocationChange]) -> LocationView:
        if not half.hub.link.ready:
            raise HubUnreachable
        try:
            changed = await half.hub.client.patch(
                Location,
                location,
                half.hub.namespace,
                body={"spec": {"cordoned": data.cordoned}},
            )
        except NotFound:
            raise NotThere(f"there is no location {location!r}") from None
        except KubeError as error:
            raise HubUnreachable from error
        return half.hub_view.view_location(changed)

    @get(
        "/v1/templates",
        action=actions.READ_TEMPLATES,
        summary="What sessions can be made from",
        responses=documented(401, 403, 429, 503),
        tags=["templates"],
    )
    async def templates() -> Templates:
        found = sorted(half.hub.templates, key=lambda template: template.metadata.name)
        return Templates(items=[view_template(template) for template in found])

    return Router("/", route_handlers=[locations, cordon, templates])
