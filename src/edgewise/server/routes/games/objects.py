"""Servers, fleets, game types and autoscalers: made and deleted, and labels of pods.

The routes of the first implementation (`/server`, `/server/pod/labels` and so on) are aliases: they
name the object in the body.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, Router, delete, post
from litestar.params import JSONBody
from msgspec import Meta

from edgewise.gameservers.allocation.request import END
from edgewise.gameservers.hub.objects import KINDS, NewObject, Objects, ObjectView
from edgewise.kube.objects import Object
from edgewise.server.http.guard import principal_of
from edgewise.server.http.problems import NotAllowed
from edgewise.server.identity.permissions import Verdict, decide
from edgewise.server.identity.principal import with_article
from edgewise.server.routes.games import actions
from edgewise.server.routes.games.context import RouteContext
from edgewise.server.routes.games.parameters import NAME, Force, ObjectName
from edgewise.server.routes.games.problems import documented

LabelName = Annotated[
    str,
    Meta(
        max_length=317,
        pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$",
    ),
]
LabelText = Annotated[
    str, Meta(max_length=63, pattern=r"^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$")
]
Labels = Annotated[dict[LabelName, LabelText | None], Meta(max_length=64)]


class LabelChange(msgspec.Struct, forbid_unknown_fields=True):
    labels: Labels
    """Label to value; null takes the label off."""


class PodLabels(msgspec.Struct):
    labels: dict[str, str]


class NamedObject(msgspec.Struct, kw_only=True):
    name: Annotated[
        # It enters a path of the API server.
        str, Meta(min_length=1, max_length=63, pattern=f"^{NAME}{END}")
    ]
    namespace: Annotated[str, Meta(max_length=63)] = ""
    labels: Annotated[dict[LabelName, LabelText], Meta(max_length=64)] = {}


class Deletion(msgspec.Struct, kw_only=True):
    metadata: NamedObject
    force: bool = False


class NewLabels(msgspec.Struct, kw_only=True):
    metadata: NamedObject


class OldLabel(msgspec.Struct, kw_only=True):
    metadata: NamedObject
    label: LabelName


def object_routes(server: RouteContext) -> list[Router]:
    objects = Objects(server.half.games)
    routers = [_labels(server, objects), _label_aliases(server, objects)]
    for word, kind in KINDS.items():
        routers += [_routes(server, objects, kind), _aliases(server, objects, word, kind)]
    return routers


def _check_force(request: Request[Any, Any, Any], force: bool) -> None:
    principal = principal_of(request)
    if force and decide(principal, actions.FORCE_DELETION) is not Verdict.ALLOWED:
        raise NotAllowed(f"{with_article(principal.role)} may not {actions.FORCE_DELETION}")


def _routes(server: RouteContext, objects: Objects, kind: type[Object]) -> Router:
    what = kind.KIND.kind

    @post(
        "/",
        action=actions.WRITE_GAME_OBJECTS,
        summary=f"Make a {what}",
        operation_id=f"Create{what}",
        responses=documented(400, 401, 403, 409, 413, 422, 429, 503),
    )
    async def create(data: JSONBody[NewObject]) -> ObjectView:
        server.half.games.check_ready()
        return await objects.create(kind, data)

    @delete(
        "/{name:str}",
        action=actions.WRITE_GAME_OBJECTS,
        summary=f"Delete a {what}",
        operation_id=f"Delete{what}",
        description="It is gone when the games of its servers allow it, or their time is up.",
        status_code=202,
        responses=documented(400, 401, 403, 404, 409, 429, 503),
    )
    async def remove(
        request: Request[Any, Any, Any], name: ObjectName, force: Force = False
    ) -> ObjectView:
        _check_force(request, force)
        server.half.games.check_ready()
        return await objects.delete(kind, name, force=force)

    return Router(f"/v1/{kind.KIND.plural}", route_handlers=[create, remove], tags=["game objects"])


def _labels(server: RouteContext, objects: Objects) -> Router:
    @post(
        "/",
        action=actions.WRITE_GAME_OBJECTS,
        summary="Label the pod of a server",
        status_code=200,
        responses=documented(400, 401, 403, 404, 409, 413, 422, 429, 503),
    )
    async def label(name: ObjectName, data: JSONBody[LabelChange]) -> PodLabels:
        server.half.games.check_ready()
        return PodLabels(labels=await objects.set_labels(name, data.labels))

    return Router(
        "/v1/servers/{name:str}/pod/labels", route_handlers=[label], tags=["game objects"]
    )


# As in the first implementation ---------------------------------------------------------------


def _aliases(server: RouteContext, objects: Objects, word: str, kind: type[Object]) -> Router:
    what = kind.KIND.kind

    @post(
        "/",
        action=actions.WRITE_GAME_OBJECTS,
        summary=f"Make a {what} (alias)",
        operation_id=f"Create{what}Alias",
        responses=documented(400, 401, 403, 409, 413, 422, 429, 503),
    )
    async def create(data: JSONBody[NewObject]) -> ObjectView:
        server.half.games.check_ready()
        return await objects.create(kind, data)

    @delete(
        "/",
        action=actions.WRITE_GAME_OBJECTS,
        summary=f"Delete a {what} (alias)",
        operation_id=f"Delete{what}Alias",
        status_code=202,
        responses=documented(400, 401, 403, 404, 409, 413, 422, 429, 503),
    )
    async def remove(request: Request[Any, Any, Any], data: JSONBody[Deletion]) -> ObjectView:
        _check_force(request, data.force)
        server.half.games.check_ready()
        objects.check_namespace(data.metadata.namespace)
        return await objects.delete(kind, data.metadata.name, force=data.force)

    return Router(f"/{word}", route_handlers=[create, remove], tags=["aliases"])


def _label_aliases(server: RouteContext, objects: Objects) -> Router:
    @post(
        "/",
        action=actions.WRITE_GAME_OBJECTS,
        summary="Label the pod of a server (alias)",
        status_code=200,
        responses=documented(400, 401, 403, 404, 409, 413, 422, 429, 503),
    )
    async def add(data: JSONBody[NewLabels]) -> PodLabels:
        server.half.games.check_ready()
        meta = data.metadata
        objects.check_namespace(meta.namespace)
        return PodLabels(labels=await objects.set_labels(meta.name, {**meta.labels}))

    @delete(
        "/",
        action=actions.WRITE_GAME_OBJECTS,
        summary="Take a label off the pod of a server (alias)",
        status_code=200,
        responses=documented(400, 401, 403, 404, 409, 413, 422, 429, 503),
    )
    async def remove(data: JSONBody[OldLabel]) -> PodLabels:
        server.half.games.check_ready()
        objects.check_namespace(data.metadata.namespace)
        return PodLabels(labels=await objects.set_labels(data.metadata.name, {data.label: None}))

    return Router("/server/pod/labels", route_handlers=[add, remove], tags=["aliases"])
