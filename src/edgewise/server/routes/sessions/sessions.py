"""Sessions: made, listed, shown and taken down."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import MediaType, Request, Response, Router, delete, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, JSONBody, QueryParameter

from edgewise.server.http.guard import principal_of
from edgewise.server.identity.permissions import sees
from edgewise.server.routes.sessions import actions
from edgewise.server.routes.sessions.admitting import sees_endpoints
from edgewise.server.routes.sessions.context import RouteContext
from edgewise.server.routes.sessions.parameters import SessionName
from edgewise.server.routes.sessions.problems import documented
from edgewise.sessions.hub.encoded_sessions import EncodedSessions
from edgewise.sessions.hub.lifecycle import NewSession
from edgewise.sessions.hub.views import SessionSummary, SessionView

RepetitionKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="Repeating a request with the same key finds the session it made.",
    ),
]
PageSize = Annotated[int, QueryParameter(ge=1, le=1000, description="How many at most.")]
After = Annotated[
    str | None, QueryParameter(max_length=63, description="Begin after this name (see `next`).")
]


class SessionPage(msgspec.Struct, rename="camel"):
    items: list[SessionSummary]
    next: str | None = None
    """If there are more: what to send as `after`."""


def session_routes(server: RouteContext) -> Router:
    half = server.half
    pages = EncodedSessions(half.hub_view)

    @post(
        "/",
        action=actions.CREATE_SESSION,
        summary="Make a session",
        description="It exists as soon as this answers; a location that does not answer now "
        "gets its part later.",
        responses={
            200: ResponseSpec(SessionView, generate_examples=False, description="Is there already"),
            **documented(400, 401, 403, 409, 413, 422, 429, 503),
        },
    )
    async def create(
        request: Request[Any, Any, Any], data: JSONBody[NewSession], key: RepetitionKey = None
    ) -> Response[SessionView]:
        principal = principal_of(request)
        session, made = await half.lifecycle.create(
            data, owner=principal.application, repetition_key=key or ""
        )
        return Response(half.hub_view.session(session), status_code=201 if made else 200)

    @get(
        "/",
        action=actions.LIST_SESSIONS,
        summary="List sessions",
        responses=documented(400, 401, 403, 429, 503),
    )
    async def list_(
        request: Request[Any, Any, Any], limit: PageSize = 100, after: After = None
    ) -> SessionPage:
        principal = principal_of(request)
        seen = sorted(
            (
                session
                for session in half.hub.sessions
                if session.metadata.name > (after or "")
                and sees(principal, actions.LIST_SESSIONS, session.spec.owner)
            ),
            key=lambda session: session.metadata.name,
        )
        page = seen[:limit]
        return SessionPage(
            items=[half.hub_view.summary(session) for session in page],
            next=page[-1].metadata.name if len(seen) > limit else None,
        )

    @get(
        "/{session:str}",
        action=actions.READ_SESSION,
        summary="One view of a session over all its locations",
        responses=documented(400, 401, 403, 404, 429, 503),
    )
    async def show(request: Request[Any, Any, Any], session: SessionName) -> Response[SessionView]:
        found = await server.session(request, actions.READ_SESSION, session)
        page: Any = pages.read(found, private=sees_endpoints(request))
        return Response(page, media_type=MediaType.JSON)

    @delete(
        "/{session:str}",
        action=actions.DELETE_SESSION,
        summary="Take a session down",
        description="It is gone when every location has confirmed; `state` says so until then.",
        status_code=202,
        responses=documented(400, 401, 403, 404, 429, 503),
    )
    async def remove(request: Request[Any, Any, Any], session: SessionName) -> SessionSummary:
        found = await server.session(request, actions.DELETE_SESSION, session)
        await half.lifecycle.delete(found)
        summary = half.hub_view.summary(found)
        return msgspec.structs.replace(summary, state="deleting")

    return Router("/v1/sessions", route_handlers=[create, list_, show, remove], tags=["sessions"])
