"""A server, or a proxy before it, that answers what nobody can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from edgewise.client.errors import Busy, EdgewiseError
from edgewise.client.sessions.seat import JoinRequest, Seat
from edgewise.client.sessions.views import ClientView
from edgewise.client.transport import Transport, refusal

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


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://127.0.0.1:1", "http://127.0.0.1:1 does not answer: Connection refused"),
        ("http://x.invalid:1", "http://x.invalid:1 does not answer: its host has no address"),
        ("x:1", "'x:1' is not the address of a server: say https://HOST:PORT"),
    ],
)
async def test_a_server_that_is_not_there_gets_one_sentence(url: str, says: str) -> None:
    with pytest.raises(EdgewiseError) as raised:
        async with Transport(url, "token") as transport:
            await transport.call("GET", "/v1/sessions", dict)
    assert str(raised.value) == says


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
    wish = JoinRequest(measure=False, leave=False)
    async with asyncio.timeout(10), Seat(transport, "match", "ann", wish, owns=False) as seat:
        async for view in seat.changes():
            if view.state == "moved":
                break


async def test_a_token_is_shown_to_no_other_server() -> None:
    asked: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        asked.append(f"{request.path} {request.headers.get('Cookie', '')}".strip())
        answer = web.Response(status=307, headers={"Location": "/elsewhere"})
        answer.set_cookie("kept", "by-callers")
        return answer

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", elsewhere)
    async with (
        TestServer(app, host="localhost") as listening,
        Transport(str(listening.make_url("/")), "token") as transport,
    ):
        with pytest.raises(EdgewiseError):
            await transport.call("GET", "/call", ClientView)
        with pytest.raises(EdgewiseError):
            await anext(transport.events("/events"))
    assert asked == ["/call", "/events"]


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
