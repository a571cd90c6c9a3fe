"""The agent's own door: the operator pushes routes, and others ask how it is."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.agents.gateway.routing import Routing
from edgewise.agents.gateway.streams import Outcome
from edgewise.errors import ReadableError
from edgewise.exposure.route import Owner, Route
from edgewise.kube.errors import UNREADABLE_JSON

MOST_BYTES = 4 * 2**20
MOST_ROUTES = 10_000
# The operator gives up after 2 s; an answer that says what is pending is worth more.
ACK_SECONDS = 1.8


class Pushed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a push."""

    domain: str
    owner: str  # namespace/name
    routes: list[Route]


class Answer(msgspec.Struct, frozen=True):
    acked: list[str]
    rejected: dict[str, str]
    pending: list[str]


class BadPush(ReadableError):
    """A push that is refused as a whole; the text says why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Control:
    """The HTTP side of one agent."""

    def __init__(
        self,
        routing: Routing,
        metrics: GatewayMetrics,
        token: Callable[[], str],
        *,
        unready: Callable[[], str],
        envoy_figures: Callable[[], Awaitable[bytes]],
    ) -> None:
        self._routing = routing
        self._metrics = metrics
        self._token = token
        self._unready = unready
        self._envoy_figures = envoy_figures

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MOST_BYTES)
        app.router.add_post("/v1/routes", self._push)
        app.router.add_get("/healthz", self._healthy)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._figures)
        app.router.add_get("/metrics/envoy", self._figures_of_envoy)
        return app

    async def _push(self, request: web.Request) -> web.Response:
        try:
            pushed = await self._read(request)
        except BadPush as error:
            return problem(error.status, str(error))
        # Without an Envoy to wait for, nobody is served by waiting.
        can_wait = self._routing.known.is_set() and len(self._routing.streams) > 0
        outcome = await self._routing.push(
            Owner(pushed.domain, pushed.owner), pushed.routes, ACK_SECONDS if can_wait else 0
        )
        return answer(outcome, 200 if can_wait else 503)

    async def _read(self, request: web.Request) -> Pushed:
        if not self._knows(request.headers.get("authorization", "")):
            raise BadPush(401, "the token is missing or wrong")
        try:
            pushed = msgspec.json.decode(await request.read(), type=Pushed)
        except web.HTTPRequestEntityTooLarge:
            raise BadPush(413, f"a push may have {MOST_BYTES} bytes; split it") from None
        except UNREADABLE_JSON as error:
            raise BadPush(400, f"the body is not a push of routes: {error}") from None
        if len(pushed.routes) > MOST_ROUTES:
            raise BadPush(413, f"a push may have {MOST_ROUTES} routes; split it")
        if len({route.id for route in pushed.routes}) != len(pushed.routes):
            raise BadPush(400, "a push may name each seat and port only once")
        if not pushed.domain or not pushed.owner:
            raise BadPush(400, "a push must name the domain and the owner of its routes")
        return pushed

    def _knows(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        right = hmac.compare_digest(token.strip().encode(), self._token().encode())
        return scheme.lower() == "bearer" and right

    async def _healthy(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        reason = self._unready()
        if reason:
            return web.Response(status=503, text=f"{reason}\n")
        return web.Response(text="ok\n")

    async def _figures(self, _: web.Request) -> web.Response:
        return figures(generate_latest(self._metrics.registry))

    async def _figures_of_envoy(self, _: web.Request) -> web.Response:
        try:
            return figures(await self._envoy_figures())
        except OSError as error:
            return problem(503, str(error))


def figures(text: bytes) -> web.Response:
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})


def answer(outcome: Outcome, status: int) -> web.Response:
    body = Answer(outcome.acked, outcome.rejected, outcome.pending)
    return web.Response(
        body=msgspec.json.encode(body), status=status, content_type="application/json"
    )


def problem(status: int, sentence: str) -> web.Response:
    body = msgspec.json.encode({"error": sentence})
    return web.Response(body=body, status=status, content_type="application/json")
