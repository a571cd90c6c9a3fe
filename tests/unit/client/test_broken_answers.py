"""A server, or a proxy before it, that answers what nobody can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from edgewise.client.errors import Busy, EdgewiseError
from edgewise.client.seat import Seat, Wish
from edgewise.client.transport import Transport, refusal
from edgewise.client.views import ClientView

BROKEN = (b"{", b'"wrong type"', b'{"session": "\xff"}')


class Server:
    """Answers each path with what it was told to; each stream of events ends after one."""

    def __init__(self) -> None:
        self.answer = b""
        self.events: list[bytes] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/events"):
            return web.Response(body=self.answer)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        if self.events:
            await stream.write(b"event: client\ndata: " + self.events.pop(0) + b"\n\n")
        else:
            await asyncio.sleep(60)
        return stream


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def transport(server: Server) -> AsyncIterator[Transport]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    async with (
        TestServer(app) as listening,
        Transport(str(listening.make_url("/")), "token") as transport,
    ):
        yield transport


@pytest.mark.parametrize("content", BROKEN)
async def test_an_answer_that_cannot_be_read_is_told(
    server: Server, transport: Transport, content: bytes
) -> None:
    server.answer = content
    with pytest.raises(EdgewiseError, match="answered something unexpected"):
        await transport.call("GET", "/v1/sessions/match/clients/ann", ClientView)


@pytest.mark.parametrize("content", BROKEN)
async def test_a_seat_goes_on_after_an_event_that_cannot_be_read(
    server: Server, transport: Transport, content: bytes
) -> None:
    server.answer = b'{"session": "match", "client": "ann", "state": "seated", "ready": true}'
    server.events = [content, server.answer.replace(b'"seated"', b'"moved"')]
    wish = Wish(measure=False, leave=False)
    async with asyncio.timeout(10), Seat(transport, "match", "ann", wish, owns=False) as seat:
        async for view in seat.changes():
            if view.state == "moved":
                break


async def test_a_server_that_asks_to_be_asked_again_at_once_is_asked_slowly() -> None:
    asked = 0

    async def busy(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=429, headers={"Retry-After": "0"})

    app = web.Application()
    app.router.add_get("/", busy)
    async with (
        TestServer(app) as listening,
        Transport(str(listening.make_url("/")), "token") as transport,
    ):
        with pytest.raises(Busy):
            await transport.call("GET", "/", ClientView, patience=0.5)
    assert 2 <= asked <= 10


@pytest.mark.parametrize(
    ("said", "taken"), [("3", 3.0), ("0", None), ("9" * 400, None), ("soon", None), (None, None)]
)
def test_advice_when_to_ask_again_is_taken_if_it_is_one(
    said: str | None, taken: float | None
) -> None:
    assert refusal(429, b"", said).retry_after == taken
