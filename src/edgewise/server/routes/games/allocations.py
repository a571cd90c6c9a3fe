"""Allocations: a server for a match, kept, and given back."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, delete, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, QueryParameter

from edgewise.api.games import Allocation
from edgewise.gameservers.allocation.claiming import Given
from edgewise.gameservers.allocation.errors import AllocationGone
from edgewise.gameservers.allocation.line import Game
from edgewise.gameservers.allocation.request import AllocationRequest, check_lease
from edgewise.gameservers.allocation.revisions import MatchKey
from edgewise.gameservers.hub.metrics import ALLOCATION_SECONDS
from edgewise.gameservers.hub.views import AllocationView
from edgewise.runtime.errors import NotThere, ServiceError
from edgewise.server.http.guard import principal_of
from edgewise.server.identity.permissions import sees
from edgewise.server.routes.games import actions
from edgewise.server.routes.games.context import RouteContext
from edgewise.server.routes.games.parameters import GameName, MatchId, Uid, WaitSeconds
from edgewise.server.routes.games.problems import documented

PageSize = Annotated[int, QueryParameter(ge=1, le=1000, description="How many at most.")]
After = Annotated[
    str | None, QueryParameter(max_length=128, description="Begin after this match (see `next`).")
]


class AllocationPage(msgspec.Struct):
    items: list[AllocationView]
    next: str | None = None
    """If there are more: what to send as `after`."""


def allocation_routes(server: RouteContext) -> Router:
    half = server.half

    @post(
        "/",
        action=actions.ALLOCATE,
        summary="Give a match a server",
        description="Each match gets one server, and each server one match. Repeating the call is "
        "safe, at any replica: a match that has a server is told which.",
        responses={
            200: ResponseSpec(AllocationView, generate_examples=False, description="Had it before"),
            202: ResponseSpec(AllocationView, generate_examples=False, description="In the queue"),
            **documented(400, 401, 403, 404, 409, 413, 422, 429, 503),
        },
    )
    async def allocate(
        request: Request[Any, Any, Any], game: GameName, data: JSONBody[AllocationRequest]
    ) -> Response[AllocationView]:
        check_lease(data)
        found = half.games.find_game(game)
        given = await _counted(server, found, principal_of(request).application, data)
        half.presence.beat(given.allocation.metadata.uid)
        return Response(server.view(given.allocation), status_code=_status(given))

    @get(
        "/",
        action=actions.LIST_ALLOCATIONS,
        summary="List matches",
        responses=documented(400, 401, 403, 429, 503),
    )
    async def list_(
        request: Request[Any, Any, Any],
        game: GameName,
        limit: PageSize = 100,
        after: After = None,
    ) -> AllocationPage:
        half.games.check_ready()
        principal = principal_of(request)
        seen = sorted(
            (
                each
                for each in half.matches.of_game(game)
                if each.spec.match > (after or "")
                and sees(principal, actions.LIST_ALLOCATIONS, each.spec.holder)
            ),
            key=lambda each: (each.spec.match, each.metadata.uid),
        )
        page = page_of(seen, limit)
        return AllocationPage(
            items=[server.view(each) for each in page],
            next=page[-1].spec.match if len(seen) > len(page) else None,
        )

    @get(
        "/{match:str}",
        action=actions.READ_ALLOCATION,
        summary="The server of a match",
        responses={
            202: ResponseSpec(AllocationView, generate_examples=False, description="In the queue"),
            **documented(400, 401, 403, 404, 429, 503),
        },
    )
    async def show(
        request: Request[Any, Any, Any],
        game: GameName,
        match: MatchId,
        wait: WaitSeconds = 0.0,
    ) -> Response[AllocationView]:
        key = await server.match(request, actions.READ_ALLOCATION, game, match)
        given = await _waited(server, key, wait)
        if given is None:
            raise NotThere(f"the match {match!r} has no server, and waits for none")
        half.presence.beat(given.allocation.metadata.uid)
        status = 202 if given.allocation.spec.waiting is not None else 200
        return Response(server.view(given.allocation), status_code=status)

    @post(
        "/{match:str}/heartbeat",
        action=actions.RENEW_ALLOCATION,
        summary="The match goes on",
        description="To be sent three times within its lease. Costs no write.",
        status_code=200,
        responses=documented(400, 401, 403, 410, 429, 503),
    )
    async def heartbeat(
        request: Request[Any, Any, Any], game: GameName, match: MatchId, uid: Uid = None
    ) -> AllocationView:
        key = await server.match(request, actions.RENEW_ALLOCATION, game, match)
        known = _known(server, key)
        if known is None or uid not in (None, known.metadata.uid):
            raise AllocationGone(
                f"the match {match!r} has lost its server: it was released, or its lease ended"
            )
        half.presence.beat(known.metadata.uid)
        return server.view(known)

    @delete(
        "/{match:str}",
        action=actions.RELEASE,
        summary="Release the server of a match",
        description="Or its place in the queue. A match that has none is released. With `uid` a "
        "late call never ends a later match of the same name.",
        responses=documented(400, 401, 403, 409, 429, 503),
    )
    async def release(
        request: Request[Any, Any, Any], game: GameName, match: MatchId, uid: Uid = None
    ) -> None:
        key = await server.match(request, actions.RELEASE, game, match)
        for each in half.matches.of(key):
            if uid in (None, each.metadata.uid):
                await half.writer.release(each)
                await half.matches.moved_on(each, 1.0)

    return Router(
        "/v1/games/{game:str}/allocations",
        route_handlers=[allocate, list_, show, heartbeat, release],
        tags=["allocations"],
    )


def page_of(seen: list[Allocation], limit: int) -> list[Allocation]:
    """The first so many, and those of the last one's name: the next page begins after that name,
    and two holders may call their matches alike."""
    page = seen[:limit]
    while page and len(page) < len(seen) and seen[len(page)].spec.match == page[-1].spec.match:
        page.append(seen[len(page)])
    return page


def _status(given: Given) -> int:
    if given.allocation.spec.waiting is not None:
        return 202
    return 201 if given.new else 200


async def _counted(server: RouteContext, game: Game, holder: str, wish: AllocationRequest) -> Given:
    started = time.perf_counter()
    try:
        given = await server.half.claims.allocate(game, holder, wish)
    except ServiceError as error:
        server.half.count(game.name, type(error).__name__)
        raise
    outcome = {201: "new", 200: "again", 202: "queued"}[_status(given)]
    if outcome == "new":
        ALLOCATION_SECONDS.observe(time.perf_counter() - started)
    server.half.count(game.name, outcome)
    return given


def _known(server: RouteContext, key: MatchKey) -> Allocation | None:
    matches = server.half.matches
    return matches.first(key) or matches.waiting(key)


async def _waited(server: RouteContext, key: MatchKey, wait: float) -> Given | None:
    """What the match has when it has a server, or when the time is up."""
    half = server.half
    deadline = asyncio.get_running_loop().time() + wait
    while True:
        given = await half.claims.find(key)
        left = deadline - asyncio.get_running_loop().time()
        if given is None or given.allocation.spec.waiting is None or left <= 0 or half.closed:
            return given
        # While it waits, asking is the sign that its holder is there.
        half.presence.beat(given.allocation.metadata.uid)

        def decided() -> bool:
            return half.closed or half.matches.first(key) is not None or not half.matches.of(key)

        await half.matches.until(key, decided, left)
