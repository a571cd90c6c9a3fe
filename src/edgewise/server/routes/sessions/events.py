"""Who wants to see changes as they happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Any

from litestar import Request, Router, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter
from litestar.response import Stream

from edgewise.api.global_sessions import GlobalSession
from edgewise.server.http.guard import principal_of
from edgewise.server.http.problems import TooMany
from edgewise.server.http.welcome import Welcome
from edgewise.server.identity.principal import Role
from edgewise.server.routes.sessions import actions
from edgewise.server.routes.sessions.admitting import sees_endpoints, was_removed
from edgewise.server.routes.sessions.context import RouteContext
from edgewise.server.routes.sessions.event_stream import EventStream
from edgewise.server.routes.sessions.parameters import ClientId, SessionName
from edgewise.server.routes.sessions.problems import documented

MEDIA_TYPE = "text/event-stream"
MOST_STREAMS = 10_000
MOST_OF_A_CLIENT = 4
MOST_OF_AN_APPLICATION = 1_000

LastEventId = Annotated[
    str | None,
    HeaderParameter(
        name="Last-Event-ID",
        max_length=4096,
        description="The id of the last event that was received: what changed since is sent.",
    ),
]

_EXPLAINED = (
    "Server-sent events. The first is `snapshot`, with everything, unless Last-Event-ID says "
    "where to go on. Then `client`, `session` and `location` show what changed as it is now, and "
    "`client-gone`, `session-gone` and `location-gone` what is not there any more. A stream about "
    "a session ends with it, and every stream ends with the token that it was opened with."
)


class Streams:
    """How many streams are open, and by whom."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def take(self, who: str, most: int) -> None:
        if self._open.total() >= MOST_STREAMS or self._open[who] >= most:
            raise TooMany(f"too many open event streams ({self._open[who]}): close some", 5)
        self._open[who] += 1

    def give_back(self, who: str) -> None:
        self._open[who] -= 1
        if self._open[who] <= 0:
            del self._open[who]


def event_routes(server: RouteContext) -> Router:
    streams = Streams()
    hub_view = server.half.hub_view

    def stream(
        request: Request[Any, Any, Any],
        last: str | None,
        session: GlobalSession | None = None,
        client: str = "",
    ) -> Stream:
        principal = principal_of(request)
        who = str(principal)
        of_client = principal.role is Role.CLIENT
        streams.take(who, MOST_OF_A_CLIENT if of_client else MOST_OF_AN_APPLICATION)

        def removed() -> bool:
            now = hub_view.hub.session(session.metadata.name) if session is not None else None
            return now is not None and was_removed(principal, now)

        async def still_holds() -> bool:
            return not removed() and await server.guard.still_is(request, principal)

        welcome = Welcome(
            still_holds,
            version=lambda: (server.credentials.version, removed()),
            expires=principal.expires,
            clock=server.clock,
        )

        async def content() -> AsyncIterator[bytes]:
            try:
                async for part in EventStream(
                    hub_view,
                    session,
                    client,
                    last_event_id=last,
                    private=sees_endpoints(request),
                    welcome=welcome,
                ):
                    yield part
            finally:
                streams.give_back(who)

        # A proxy that collects the stream before it passes it on would defeat it.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return Stream(content(), media_type=MEDIA_TYPE, headers=headers)

    answers = {
        200: ResponseSpec(
            str, generate_examples=False, description="The stream", media_type=MEDIA_TYPE
        )
    }

    @get(
        "/v1/events",
        action=actions.WATCH_ALL,
        summary="Watch everything",
        description=_EXPLAINED,
        responses={**answers, **documented(400, 401, 403, 429, 503)},
        media_type=MEDIA_TYPE,
    )
    async def watch_all(request: Request[Any, Any, Any], last: LastEventId = None) -> Stream:
        return stream(request, last)

    @get(
        "/v1/sessions/{session:str}/events",
        action=actions.WATCH_SESSION,
        summary="Watch a session and its clients",
        description=_EXPLAINED,
        responses={**answers, **documented(400, 401, 403, 404, 429, 503)},
        media_type=MEDIA_TYPE,
    )
    async def watch_session(
        request: Request[Any, Any, Any], session: SessionName, last: LastEventId = None
    ) -> Stream:
        found = await server.session(request, actions.WATCH_SESSION, session)
        return stream(request, last, found)

    @get(
        "/v1/sessions/{session:str}/clients/{client:str}/events",
        action=actions.WATCH_CLIENT,
        summary="Watch one client",
        description=_EXPLAINED,
        responses={**answers, **documented(400, 401, 403, 404, 429, 503)},
        media_type=MEDIA_TYPE,
    )
    async def watch_client(
        request: Request[Any, Any, Any],
        session: SessionName,
        client: ClientId,
        last: LastEventId = None,
    ) -> Stream:
        found = await server.session(request, actions.WATCH_CLIENT, session, client)
        return stream(request, last, found, client)

    return Router("/", route_handlers=[watch_all, watch_session, watch_client], tags=["events"])
