"""What the operator makes of what gateways answer, or do not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from edgewise.exposure.publishing import Ack, Gateway, GatewayPublisher
from edgewise.exposure.route import Owner, Route

OWNER = Owner("sessions", "n/s")
ROUTES = [
    Route("seat", "http", "HTTP", 0, "10.0.0.1", 80),
    Route("seat", "game", "UDP", 20001, "10.0.0.1", 7),
]
HTTP, UDP = (route.id for route in ROUTES)

Handler = Callable[[web.Request], Awaitable[web.Response]]


@contextlib.asynccontextmanager
async def gateway(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/routes", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def answering(status: int = 200, **body: Any) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    return handler


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Publisher:
    """One publisher over several pushes, and the time between them."""

    def __init__(self, http: aiohttp.ClientSession, *gateways: Gateway) -> None:
        self.clock = Clock()
        self._publisher = GatewayPublisher(
            lambda: gateways, lambda: "secret", http, patience=1.0, monotonic=self.clock
        )

    async def publish(self) -> Ack:
        return await self._publisher.publish(OWNER, ROUTES)


async def publish(*urls: str) -> Ack:
    async with aiohttp.ClientSession() as http:
        return await Publisher(http, *map(Gateway, urls)).publish()


async def test_all_is_acknowledged() -> None:
    async with gateway(answering(acked=[HTTP, UDP])) as url:
        assert (await publish(url)).acked == {HTTP, UDP}


async def test_the_gateway_is_told_who_asks_and_for_what() -> None:
    seen: list[Any] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.headers["Authorization"], await request.json()))
        return web.json_response({"acked": []})

    async with gateway(handler) as url:
        await publish(url)
    ((token, body),) = seen
    assert token == "Bearer secret"
    assert (body["domain"], body["owner"]) == ("sessions", "n/s")
    assert msgspec.convert(body["routes"], list[Route]) == ROUTES


async def test_a_gateway_sends_the_push_nowhere_else() -> None:
    elsewhere: list[str] = []

    async def other(request: web.Request) -> web.Response:
        elsewhere.append(request.path)
        return web.json_response({"acked": [HTTP, UDP]})

    async with gateway(other) as target:

        async def handler(_: web.Request) -> web.Response:
            return web.Response(status=307, headers={"Location": f"{target}/v1/routes"})

        async with gateway(handler) as url:
            ack = await publish(url)
    assert (ack.acked, elsewhere) == (set(), [])
    assert "answered 307" in ack.complaint


async def test_an_answer_without_end_is_no_answer() -> None:
    async with gateway(answering(acked=[HTTP, UDP], pending=["x" * 5 * 2**20])) as url:
        ack = await publish(url)
    assert ack.acked == set()
    assert "more than 4,194,304 bytes" in ack.complaint


async def test_what_one_gateway_does_not_serve_yet_is_not_ready() -> None:
    slow = answering(acked=[HTTP], pending=[UDP])
    async with gateway(slow) as one, gateway(answering(acked=[HTTP, UDP])) as other:
        ack = await publish(one, other)
    assert ack.acked == {HTTP}


async def silent(_: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


@pytest.mark.parametrize("handler", [silent, answering(503), answering(500)])
async def test_a_gateway_that_fell_silent_is_waited_for_but_not_for_ever(handler: Handler) -> None:
    async with (
        gateway(handler) as one,
        gateway(answering(acked=[HTTP, UDP])) as other,
        aiohttp.ClientSession() as http,
    ):
        publisher = Publisher(http, Gateway(one), Gateway(other))
        ack = await publisher.publish()
        assert not ack.acked, "clients may be led to the silent one"
        assert one in ack.complaint
        publisher.clock.now += 9
        assert not (await publisher.publish()).acked
        publisher.clock.now += 2
        assert (await publisher.publish()).acked == {HTTP, UDP}, "nobody waits for it any more"


async def test_a_gateway_that_came_back_counts_again() -> None:
    answers = [503, 200]

    async def back(_: web.Request) -> web.Response:
        status = answers.pop(0) if answers else 200
        return web.json_response({"acked": [HTTP]}, status=status)

    async with (
        gateway(back) as one,
        gateway(answering(acked=[HTTP, UDP])) as other,
        aiohttp.ClientSession() as http,
    ):
        publisher = Publisher(http, Gateway(one), Gateway(other))
        await publisher.publish()
        publisher.clock.now += 1
        assert (await publisher.publish()).acked == {HTTP}
        publisher.clock.now += 20
        assert (await publisher.publish()).acked == {HTTP}


async def test_nobody_waits_for_a_gateway_to_which_no_client_is_led_but_it_is_told() -> None:
    told = asyncio.Event()

    async def starting(request: web.Request) -> web.Response:
        told.set()
        return await silent(request)

    async with (
        gateway(starting) as one,
        gateway(answering(acked=[HTTP, UDP])) as other,
        aiohttp.ClientSession() as http,
    ):
        publisher = Publisher(http, Gateway(one, serving=False), Gateway(other))
        assert (await publisher.publish()).acked == {HTTP, UDP}
        await asyncio.wait_for(told.wait(), 5)


async def test_where_no_gateway_is_ready_the_word_of_one_that_answers_counts() -> None:
    async with (
        gateway(answering(503)) as one,
        gateway(answering(acked=[HTTP, UDP])) as other,
        aiohttp.ClientSession() as http,
    ):
        publisher = Publisher(http, *(Gateway(url, serving=False) for url in (one, other)))
        assert (await publisher.publish()).acked == {HTTP, UDP}


async def test_what_one_refuses_is_of_no_use() -> None:
    refusing = answering(acked=[HTTP], rejected={UDP: "cannot listen"})
    async with gateway(refusing) as one, gateway(answering(acked=[HTTP, UDP])) as other:
        ack = await publish(one, other)
    assert ack.acked == {HTTP}
    assert ack.rejected == {UDP: "cannot listen"}


async def test_a_gateway_that_is_not_ready_has_acknowledged_nothing() -> None:
    async with gateway(answering(503, acked=[], pending=[HTTP, UDP])) as url:
        assert not (await publish(url)).acked


@pytest.mark.parametrize("status", [401, 500])
async def test_a_gateway_that_says_no_is_named(status: int) -> None:
    async with gateway(answering(status, error="no")) as url:
        ack = await publish(url)
    assert not ack.acked
    assert url in ack.complaint
    assert "secret" not in ack.complaint


async def test_nobody_is_there() -> None:
    assert "127.0.0.1:9" in (await publish("http://127.0.0.1:9")).complaint
    assert (await publish()).complaint == "no gateway is known"


@pytest.mark.parametrize("said", [b"fine!", b'{"acked": ["\xff"]}'])
async def test_nonsense_is_no_acknowledgement(said: bytes) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=said)

    async with gateway(handler) as url:
        assert not (await publish(url)).acked


async def test_a_token_that_cannot_be_read_is_told_and_stops_nothing() -> None:
    def unreadable() -> str:
        raise PermissionError(13, "Permission denied", "/etc/edgewise/token")

    async with gateway(answering(acked=[HTTP, UDP])) as url, aiohttp.ClientSession() as http:
        publisher = GatewayPublisher(lambda: [Gateway(url)], unreadable, http, patience=1.0)
        ack = await publisher.publish(OWNER, ROUTES)
    assert not ack.acked
    assert "Permission denied" in ack.complaint
