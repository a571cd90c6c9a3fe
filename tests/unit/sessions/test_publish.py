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

from edgewise.sessions.publish import Ack, GatewayPublisher
from edgewise.sessions.routes import Route

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


async def publish(*urls: str, patience: float = 2.0) -> Ack:
    async with aiohttp.ClientSession() as http:
        publisher = GatewayPublisher(lambda: urls, lambda: "secret", http, patience=patience)
        return await publisher.publish("n/s", ROUTES)


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
    assert body["session"] == "n/s"
    assert msgspec.convert(body["routes"], list[Route]) == ROUTES


async def test_a_silent_gateway_does_not_hold_up_the_others() -> None:
    async def silent(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with gateway(silent) as one, gateway(answering(acked=[HTTP, UDP])) as other:
        ack = await publish(one, other, patience=0.2)
    assert ack.acked == {HTTP, UDP}


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


async def test_nonsense_is_no_acknowledgement() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text="fine!")

    async with gateway(handler) as url:
        assert not (await publish(url)).acked
