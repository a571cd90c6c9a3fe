"""One client of a session: joining, staying, disconnecting, leaving."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
from litestar import Request, Response, Router, delete, get, post, put
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody

from edgewise.api.global_sessions import BindingState, ClientBinding, GlobalSession
from edgewise.api.sessions import ClientPhase
from edgewise.runtime.errors import NotThere, Refused, ServiceError, Unacceptable, Unavailable
from edgewise.server.http.guard import principal_of
from edgewise.server.identity import client_tokens
from edgewise.server.identity.principal import Role
from edgewise.server.routes.sessions import actions
from edgewise.server.routes.sessions.admitting import admit, check_not_removed, sees_endpoints
from edgewise.server.routes.sessions.context import RouteContext
from edgewise.server.routes.sessions.parameters import ClientId, SessionName, WaitSeconds
from edgewise.server.routes.sessions.problems import documented
from edgewise.sessions.hub.errors import HubUnreachable
from edgewise.sessions.hub.joining import LONGEST_LEASE_OF_A_CLIENT, Joined, JoinRequest
from edgewise.sessions.hub.metrics import JOIN_SECONDS, JOINS
from edgewise.sessions.hub.removals import last_removal
from edgewise.sessions.hub.views import ClientView


class TokenView(msgspec.Struct, rename="camel"):
    """A token with which a client can act as itself, and as nobody else."""

    token: str
    expires: float
    """Seconds since the epoch."""


class HeartbeatView(msgspec.Struct, rename="camel"):
    """Where the client is now, and a fresh token if its own will end soon."""

    client: ClientView
    token: TokenView | None = None


def client_routes(server: RouteContext) -> Router:
    half = server.half

    @put(
        "/",
        action=actions.JOIN,
        summary="Join",
        description="Seats the client in the best location, or in the one it asks for. "
        "Repeating it is safe: a client that is seated is told where.",
        status_code=200,
        responses={
            201: ResponseSpec(ClientView, generate_examples=False, description="Seated now"),
            202: ResponseSpec(ClientView, generate_examples=False, description="In the queue"),
            **documented(400, 401, 403, 404, 409, 413, 422, 429, 503),
        },
    )
    async def join(
        request: Request[Any, Any, Any],
        session: SessionName,
        client: ClientId,
        data: JSONBody[JoinRequest | None] = None,
        wait: WaitSeconds = 0.0,
    ) -> Response[ClientView]:
        wish = data or JoinRequest()
        found = await server.session(request, actions.JOIN, session, client)
        if wish.move:
            admit(principal_of(request), actions.MOVE, session, found, client)
        if principal_of(request).role is Role.CLIENT:
            _check_lease(wish)
            if half.hub.link.ready:
                # Another replica may have heard of a removal that is not in our cache yet.
                check_not_removed(principal_of(request), await half.removals.read(found))
        joined = await _joined(server, found, client, wish)
        half.presence.beat(joined.binding.metadata.name)
        binding = joined.binding
        if wait and not _is_ready(server, binding, joined.generation):
            binding = await _wait(server, found, binding, joined.generation, wait)
        view = half.hub_view.client(binding)
        status = 201 if joined.new else 200
        return Response(view, status_code=202 if view.state == "queued" else status)

    @get(
        "/",
        action=actions.READ_CLIENT,
        summary="Where a client is",
        responses=documented(400, 401, 403, 404, 429, 503),
    )
    async def show(
        request: Request[Any, Any, Any],
        session: SessionName,
        client: ClientId,
        wait: WaitSeconds = 0.0,
    ) -> ClientView:
        found = await server.session(request, actions.READ_CLIENT, session, client)
        binding = await server.binding(found, client)
        if wait and not _is_ready(server, binding, 0):
            binding = await _wait(server, found, binding, 0, wait)
        return half.hub_view.client(binding, private=sees_endpoints(request))

    @post(
        "/heartbeat",
        action=actions.HEARTBEAT,
        summary="The client is still there",
        description="To be sent three times within its lease. It brings a client back.",
        status_code=200,
        responses=documented(400, 401, 403, 404, 429, 503),
    )
    async def heartbeat(
        request: Request[Any, Any, Any], session: SessionName, client: ClientId
    ) -> HeartbeatView:
        found = await server.session(request, actions.HEARTBEAT, session, client)
        binding = await server.binding(found, client)
        half.presence.beat(binding.metadata.name)
        if binding.spec.state is BindingState.DISCONNECTED and half.hub.link.ready:
            binding = await half.joining.reconnect(found, client)
        return HeartbeatView(
            client=half.hub_view.client(binding), token=_renewed(server, request, found)
        )

    @post(
        "/disconnect",
        action=actions.DISCONNECT,
        summary="The client is disconnected",
        description="It keeps its seat for as long as its template says.",
        status_code=200,
        responses=documented(400, 401, 403, 404, 429, 503),
    )
    async def disconnect(
        request: Request[Any, Any, Any], session: SessionName, client: ClientId
    ) -> ClientView:
        found = await server.session(request, actions.DISCONNECT, session, client)
        return half.hub_view.client(await half.joining.disconnect(found, client))

    @delete(
        "/",
        action=actions.LEAVE,
        summary="Leave",
        description="Gives the seat up. Somebody who is not there has left. A client that its "
        "application takes out needs a new token to come back.",
        responses=documented(400, 401, 403, 404, 429, 503),
    )
    async def leave(
        request: Request[Any, Any, Any], session: SessionName, client: ClientId
    ) -> None:
        found = await server.session(request, actions.LEAVE, session, client)
        if principal_of(request).role is not Role.CLIENT:
            await half.removals.remember(found, client)
        await half.joining.leave(found, client)

    @post(
        "/token",
        action=actions.ISSUE_CLIENT_TOKEN,
        summary="A token for the client",
        description="Short-lived, and good for this client of this session only.",
        responses=documented(400, 401, 403, 404, 429, 503),
    )
    async def token(
        request: Request[Any, Any, Any], session: SessionName, client: ClientId
    ) -> TokenView:
        found = await server.session(request, actions.ISSUE_CLIENT_TOKEN, session, client)
        return _issue(server, await half.removals.expect_tokens(found), client)

    return Router(
        "/v1/sessions/{session:str}/clients/{client:str}",
        route_handlers=[join, show, heartbeat, disconnect, leave, token],
        tags=["clients"],
    )


def _check_lease(wish: JoinRequest) -> None:
    """A client that is never missed would keep its seat and its pods for ever."""
    if not 1 <= wish.lease_seconds <= LONGEST_LEASE_OF_A_CLIENT:
        raise Unacceptable(
            f"a client may ask for a lease of 1 to {LONGEST_LEASE_OF_A_CLIENT} seconds, and this "
            f"one asks for {wish.lease_seconds}: leave it out, or let the application join"
        )


async def _joined(
    server: RouteContext, session: GlobalSession, client: str, wish: JoinRequest
) -> Joined:
    started = time.perf_counter()
    try:
        joined = await server.half.joining.join(session, client, wish)
    except ServiceError as error:
        JOINS.labels(type(error).__name__).inc()
        raise
    if joined.new:
        JOIN_SECONDS.observe(time.perf_counter() - started)
    JOINS.labels("new" if joined.new else "again").inc()
    return joined


def _issue(server: RouteContext, session: GlobalSession, client: str) -> TokenView:
    keys = server.credentials.signing_keys()
    if keys is None:
        raise Unavailable("the key for client tokens is not there yet: try again shortly", 1)
    issued = client_tokens.issue(
        keys,
        session=session.metadata.name,
        session_uid=session.metadata.uid,
        client=client,
        removal=last_removal(session, client),
        now=server.clock(),
    )
    return TokenView(token=issued.token, expires=issued.expires)


def _renewed(
    server: RouteContext, request: Request[Any, Any, Any], session: GlobalSession
) -> TokenView | None:
    """A client that is there and heard from never has to ask its application for a new token."""
    principal = principal_of(request)
    if principal.role is not Role.CLIENT or principal.expires is None:
        return None
    if principal.expires - server.clock() > client_tokens.LIFETIME_SECONDS / 2:
        return None
    return _issue(server, session, principal.client)


def _is_ready(server: RouteContext, binding: ClientBinding, generation: int) -> bool:
    """Ready, as its cluster's controllers found after they had seen `generation`.

    Not while that cluster is silent: what it said last may be over.
    """
    if binding.spec.state is not BindingState.SEATED:
        return False
    if server.half.members.trouble(binding.spec.location):
        return False
    part = server.half.hub_view.part(binding)
    if part is None or part.status.observed_generation < generation:
        return False
    status = part.status.clients.get(binding.spec.client)
    return status is not None and status.ready


def _refusal(server: RouteContext, binding: ClientBinding, generation: int) -> str:
    """Why the client's cluster will not have it; empty if it will."""
    part = server.half.hub_view.part(binding)
    if part is None or part.status.observed_generation < generation:
        return ""
    status = part.status.clients.get(binding.spec.client)
    if status is None or status.phase != ClientPhase.REFUSED:
        return ""
    return status.message or "it does not say why"


async def _wait(
    server: RouteContext,
    session: GlobalSession,
    binding: ClientBinding,
    generation: int,
    seconds: float,
) -> ClientBinding:
    """The binding when it is ready, or as it is when the time is up."""
    client, cluster = binding.spec.client, binding.spec.location
    hub_view = server.half.hub_view
    with hub_view.changes.subscribe((session.metadata.name, client)) as changes:
        try:
            async with asyncio.timeout(seconds):
                while True:
                    newest = server.newest(binding)
                    if newest is None:
                        raise NotThere(f"{client} has left {session.metadata.name}")
                    # In another cluster the generations count anew.
                    wanted = generation if newest.spec.location == cluster else 0
                    if _is_ready(server, newest, wanted):
                        return newest
                    if wanted and (why := _refusal(server, newest, wanted)):
                        await server.half.joining.leave(session, client)
                        raise Refused(f"{cluster} refuses {client}: {why}")
                    await changes.wait()
                    changes.take()
        except TimeoutError:
            if not server.half.hub.link.ready:
                raise HubUnreachable from None
            return server.newest(binding) or binding
