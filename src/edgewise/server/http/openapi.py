"""The API's own description of itself, at `/v1/openapi.json`."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Litestar, Request, Response, Router, get
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from edgewise import __version__

# The framework's own pages about the schema have no action, so nobody gets in.
SCHEMA_PATH = "/schema"


def openapi_config() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="Edgewise",
        version=__version__,
        description="Sessions over many clusters: who is where, and how to get there.",
        openapi_router=Router(SCHEMA_PATH, route_handlers=[], include_in_schema=False),
        render_plugins=[JsonRenderPlugin()],
        components=Components(
            security_schemes={
                "token": SecurityScheme(
                    type="http",
                    scheme="bearer",
                    description="An API token, an OIDC token, or a client's token.",
                )
            }
        ),
        security=[{"token": []}],
    )


def openapi_routes() -> Router:
    written: list[bytes] = []

    @get("/v1/openapi.json", open=True, include_in_schema=False)
    async def show(request: Request[Any, Any, Any]) -> Response[bytes]:
        if not written:
            written.append(msgspec.json.encode(schema_of(request.app)))
        return Response(written[0], media_type="application/json")

    return Router("/", route_handlers=[show])


def schema_of(app: Litestar) -> dict[str, Any]:
    schema: dict[str, Any] = app.openapi_schema.to_schema()
    for operations in schema["paths"].values():
        for operation in operations.values():
            body = operation.get("requestBody") if isinstance(operation, dict) else None
            if body is not None:
                _say_what_may_be_left_out(body)
    return schema


def _say_what_may_be_left_out(body: dict[str, Any]) -> None:
    """A body that may be nothing: the framework writes that as one that must be sent as null."""
    for content in body["content"].values():
        choices = content["schema"].get("oneOf", [])
        if {"type": "null"} in choices:
            body["required"] = False
            content["schema"] = next(choice for choice in choices if choice != {"type": "null"})
