"""Locations and templates, and whether this replica is well."""

from __future__ import annotations

import msgspec
from litestar import Response, Router, get, patch
from litestar.params import JSONBody

from edgewise.api.fleet import MemberCluster
from edgewise.kube.errors import KubeError, NotFound
from edgewise.server.errors import HubUnreachable, NotThere
from edgewise.server.http.parameters import LocationName
from edgewise.server.http.problems import documented
from edgewise.server.http.server import Server
from edgewise.server.identity.permissions import Action
from edgewise.server.views import LocationView, TemplateView, view_template


class Locations(msgspec.Struct):
    items: list[LocationView]


class Templates(msgspec.Struct):
    items: list[TemplateView]


class LocationChange(msgspec.Struct, forbid_unknown_fields=True):
    cordoned: bool
    """True: no new clients, while those who are there stay."""


class Wellness(msgspec.Struct):
    status: str
    reason: str = ""


def fleet_routes(server: Server) -> Router:
    replica = server.replica

    @get(
        "/v1/locations",
        action=Action.READ_LOCATIONS,
        summary="Where clients can be",
        description="With the address to measure the distance to, load, free capacity and health.",
        responses=documented(401, 403, 429, 503),
        tags=["locations"],
    )
    async def locations() -> Locations:
        return Locations(items=replica.fleet.locations())

    @patch(
        "/v1/locations/{location:str}",
        action=Action.CORDON,
        summary="Cordon a location, or open it again",
        responses=documented(400, 401, 403, 404, 413, 429, 503),
        tags=["locations"],
    )
    async def cordon(location: LocationName, data: JSONBody[LocationChange]) -> LocationView:
        if not replica.hub.mirror.ready:
            raise HubUnreachable
        try:
            changed = await replica.hub.client.patch(
                MemberCluster,
                location,
                replica.hub.namespace,
                body={"spec": {"cordoned": data.cordoned}},
            )
        except NotFound:
            raise NotThere(f"there is no location {location!r}") from None
        except KubeError as error:
            raise HubUnreachable from error
        return replica.fleet.view_location(changed)

    @get(
        "/v1/templates",
        action=Action.READ_TEMPLATES,
        summary="What sessions can be made from",
        responses=documented(401, 403, 429, 503),
        tags=["templates"],
    )
    async def templates() -> Templates:
        found = sorted(replica.hub.templates, key=lambda template: template.metadata.name)
        return Templates(items=[view_template(template) for template in found])

    @get("/healthz", open=True, include_in_schema=False)
    async def healthz() -> Wellness:
        return Wellness("ok")

    @get("/readyz", open=True, include_in_schema=False)
    async def readyz() -> Response[Wellness]:
        # An outage of the hub is no reason to take replicas away: reads still work.
        if replica.hub.mirror.complete:
            return Response(Wellness("ok", replica.hub.mirror.trouble))
        return Response(Wellness("not ready", replica.hub.mirror.trouble), status_code=503)

    return Router("/", route_handlers=[locations, cordon, templates, healthz, readyz])
