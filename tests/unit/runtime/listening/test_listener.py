"""What a listener of ours takes from callers who have shown no token, with both frameworks."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar, cast

import pytest
from aiohttp import web
from litestar import Litestar, Request, Response, get, post

from edgewise.runtime.listening import listener as listener_module
from edgewise.runtime.listening.listener import ConnectionLimits, Limits, Listener, bind
from edgewise.runtime.listening.request_guard import RequestLimits
from edgewise.runtime.listening.web_app import listening
from edgewise.server.http import serving as serving_module
from edgewise.server.http.request_ids import RequestIds
from edgewise.server.http.serving import Listen, Tls, serving
from tests.unit.kube.pems import make_pair

KIB = 1024
LARGE = b"x" * (16 << 20)  # more than the system keeps for a connection
END = b" HTTP/1.1\r\nHost: x\r\n\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
USUAL = Limits()
QUICK = Limits(
    connections=ConnectionLimits(connections=8, per_address=6, waiting=4, body_bytes=64 * KIB),
    request=RequestLimits(
        handshake_seconds=0.3,
        header_seconds=0.5,
        body_seconds=0.5,
        unread_seconds=0.5,
        linger_seconds=0.5,
    ),
)

Start = Callable[..., AbstractAsyncContextManager[int]]


async def healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def length(request: web.Request) -> web.Response:
    return web.Response(text=str(len(await request.read())))


async def large(_: web.Request) -> web.Response:
    return web.Response(body=LARGE)


@contextlib.asynccontextmanager
async def on_aiohttp(
    limits: Limits = USUAL, tls: tuple[Path, Path] | None = None
) -> AsyncIterator[int]:
    app = web.Application(client_max_size=1 << 20)
    app.router.add_get("/healthz", healthy)
    app.router.add_get("/large", large)
    app.router.add_post("/length", length)
    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
    async with listening(app, "127.0.0.1", 0, limits, tls=context) as port:
        yield port


@get("/healthz", media_type="text/plain")
async def healthz() -> str:
    return "ok"


@get("/large")
async def large_answer() -> Response[bytes]:
    return Response(LARGE)


@post("/length", media_type="text/plain", status_code=200)
async def body_length(request: Request) -> str:  # type: ignore[type-arg]
    return str(len(await request.body()))


@contextlib.asynccontextmanager
async def on_uvicorn(
    limits: Limits = USUAL, tls: tuple[Path, Path] | None = None
) -> AsyncIterator[int]:
    app = RequestIds(Litestar([healthz, large_answer, body_length], openapi_config=None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving_module, "limits_of", lambda _: limits)
        async with serving(app, Listen(port=0, tls=Tls(*tls) if tls else None)) as port:
            yield port


@pytest.fixture(params=[on_aiohttp, on_uvicorn], ids=["aiohttp", "uvicorn"])
def start(request: pytest.FixtureRequest) -> Start:
    return request.param  # type: ignore[no-any-return]


async def ask(port: int, *pieces: bytes, source: str = "127.0.0.1") -> bytes:
    """What comes back until the connection ends, or for as long as anything comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        return await said(reader, writer, *pieces)
    finally:
        writer.close()


async def said(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *pieces: bytes) -> bytes:
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        answer = b""
        with contextlib.suppress(ConnectionError):
            while b"\r\n\r\n" not in answer and (more := await reader.read(65536)):
                answer += more
        return answer


def status(answer: bytes) -> int:
    return int(answer.split()[1]) if answer else 0


def chunked(*pieces: bytes) -> bytes:
    return (
        b"POST /length HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n0\r\n" + b"".join(pieces) + b"\r\n"
    )


REQUESTS = {
    "a request is answered": (GET + b"\r\n", 200),
    "so is one with 30 KiB of headers": (GET + b"A: " + b"b" * 30 * KIB + b"\r\n\r\n", 200),
    "and one with a long URL": (
        b"GET /healthz?" + b"u" * 30 * KIB + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        200,
    ),
    "headers in all": (GET + b"A: 23456789\r\n" * 90 * 40 + b"\r\n", 431),
    "a great many fields": (GET + b"A: b\r\n" * 150 + b"\r\n", 431),
    "one long header": (GET + b"A: " + b"b" * 33 * KIB + b"\r\n\r\n", 431),
    "one long name": (GET + b"A" * 33 * KIB + b": b\r\n\r\n", 431),
    "the URL": (b"GET /healthz?" + b"u" * 33 * KIB + END, 414),
    "trailers are read": (chunked(b"T: v\r\n"), 200),
    "trailers in all": (chunked(b"T: 23456789\r\n" * 90 * 40), 431),
    "one long trailer": (chunked(b"T: " + b"v" * 60 * KIB + b"\r\n"), 431),
    "what is no HTTP": (b"\x16\x03\x01 hello\r\n\r\n", 400),
    "a request without a host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "some requests at once": ((GET + b"\r\n") * 8, 200),
    "a great many requests at once": ((GET + b"\r\n") * 300, 429),
    "another protocol is not spoken": (GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 200),
}


async def test_a_request_has_bounds(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    expected = {name: status for name, (_, status) in REQUESTS.items()}
    if start is on_uvicorn:
        expected["a request without a host"] = 404  # it asks for none
    async with start() as port:
        found = {name: status(await ask(port, sent)) for name, (sent, _) in REQUESTS.items()}
    assert found == expected
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


async def test_a_refusal_says_why(start: Start) -> None:
    async with start() as port:
        answer = await ask(port, GET, b"A: " + b"b" * 64 * KIB)
    assert b"application/problem+json" in answer
    assert b"may have 32768 bytes and 100 fields" in answer


@pytest.mark.parametrize(
    "endless",
    [b"A: b\r\n" * 1000, b"b" * 6000, b"\r\n" * 3000],
    ids=["fields", "one field", "empty lines"],
)
async def test_headers_without_end_come_to_an_end(start: Start, endless: bytes) -> None:
    sent = 0
    async with start() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET + b"A: b")
        with contextlib.suppress(ConnectionError):
            while sent < 16 << 20:
                async with asyncio.timeout(10):
                    writer.write(endless)
                    await writer.drain()
                sent += len(endless)
        writer.close()
        assert b"200" in await ask(port, GET, b"\r\n"), "others are served"
    assert sent < 8 << 20, "what does not fit into the buffers between us is not taken"


async def test_pipelined_and_following_requests_are_counted_one_by_one(start: Start) -> None:
    request = GET + b"A: " + b"b" * 20 * KIB + b"\r\n\r\n"
    async with start() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            assert status(await said(reader, writer, request)) == 200
        writer.write(request * 4)
        answers = b""
        async with asyncio.timeout(10):
            while answers.count(b"HTTP/1.1 200") < 4:
                answers += await reader.read(65536)
        writer.close()


async def test_a_body_within_the_limits_arrives(start: Start) -> None:
    body = b"b" * 50_000
    head = b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n"
    async with start() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            answer = await said(reader, writer, head + body[:100], body[100:])
            assert status(answer) == 200
            assert answer.endswith(b"50000")
        writer.close()


# Time.


SLOW = {
    "nothing at all": (b"", 0),
    "a request line": (b"GET / HT", 408),
    "headers that stop": (GET, 408),
    "a body that stops": (b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab", 0),
}


@pytest.mark.parametrize("name", SLOW)
async def test_a_request_that_does_not_arrive_is_not_waited_for(
    start: Start, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    content, expected = SLOW[name]
    async with start(QUICK) as port:
        began = asyncio.get_running_loop().time()
        answer = await ask(port, content)
        assert status(answer) == expected
        assert asyncio.get_running_loop().time() - began < 20
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


async def test_dripping_does_not_buy_time(start: Start) -> None:
    async with start(QUICK) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(10):
                while True:
                    writer.write(b"A: b\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.05)
        writer.close()
        with pytest.raises(ConnectionError):  # noqa: PT012
            writer.write(b"A")
            await writer.drain()


async def test_a_connection_that_is_kept_may_rest_longer_than_headers_may_take(
    start: Start,
) -> None:
    async with start(QUICK) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert status(await said(reader, writer, GET, b"\r\n")) == 200
        await asyncio.sleep(1.5)
        assert status(await said(reader, writer, GET, b"\r\n")) == 200
        # but empty lines are no rest
        writer.write(b"\r\n")
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


# Number.


async def test_those_who_wait_keep_nobody_out(start: Start) -> None:
    async with start(QUICK) as port, contextlib.AsyncExitStack() as stack:
        for _ in range(20):
            writer = (await asyncio.open_connection("127.0.0.1", port))[1]
            stack.callback(writer.close)
            writer.write(GET)
        for _ in range(5):
            assert status(await ask(port, GET, b"\r\n")) == 200
        assert status(await ask(port, GET, b"\r\n", source="127.0.0.2")) == 200


async def test_one_address_cannot_take_all_places(start: Start) -> None:
    async with start(QUICK) as port, contextlib.AsyncExitStack() as stack:
        served = []
        for _ in range(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.close)
            served.append(status(await said(reader, writer, GET, b"\r\n")))
        assert served == [200] * 6 + [0] * 4
        assert status(await ask(port, GET, b"\r\n", source="127.0.0.2")) == 200


async def test_bodies_that_are_not_complete_are_bounded_together(start: Start) -> None:
    head = b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 30000\r\n\r\n"
    async with start(QUICK) as port, contextlib.AsyncExitStack() as stack:
        readers = []
        for _ in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.close)
            writer.write(head + b"b" * 25_000)
            readers.append(reader)
        async with asyncio.timeout(0.4):  # before their time is up
            with contextlib.suppress(ConnectionError):
                assert await readers[0].read() == b"", "the first one makes room"


def asks_and_does_not_read(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=10)
    made.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    return made


def what_is_left(made: socket.socket) -> int:
    total = 0
    with contextlib.suppress(ConnectionError), made:
        while more := made.recv(1 << 20):
            total += len(more)
    return total


async def test_an_answer_that_nobody_reads_is_not_kept(start: Start) -> None:
    async with start(QUICK) as port:
        made = await asyncio.to_thread(asks_and_does_not_read, port)
        await asyncio.sleep(2)
        assert await asyncio.to_thread(what_is_left, made) < len(LARGE)


async def test_an_answer_that_is_read_slowly_arrives(start: Start) -> None:
    def slowly(made: socket.socket) -> int:
        total = 0
        for _ in range(30):  # longer than nobody may read at all
            total += len(made.recv(384 * KIB, socket.MSG_WAITALL))
            time.sleep(0.1)
        return total + what_is_left(made)

    limits = Limits(request=RequestLimits(unread_seconds=1.5))
    async with start(limits) as port:
        made = await asyncio.to_thread(asks_and_does_not_read, port)
        assert await asyncio.to_thread(slowly, made) > len(LARGE)


async def test_answers_that_nobody_reads_are_bounded_together(start: Start) -> None:
    """Two fit."""
    limits = Limits(connections=ConnectionLimits(unread_bytes=2 * len(LARGE)))
    async with start(limits) as port:
        made = [await asyncio.to_thread(asks_and_does_not_read, port) for _ in range(4)]
        await asyncio.sleep(0.5)
        arrived = [await asyncio.to_thread(what_is_left, each) > len(LARGE) for each in made]
        assert arrived == [False, False, True, True], "those who waited longest made room"


async def test_a_packed_body_is_not_unpacked() -> None:
    """64 KiB of gzip may be 64 MiB."""
    packed = gzip.compress(bytes(1000))
    head = (
        b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    )
    async with on_aiohttp() as port:
        answer = await ask(port, head % len(packed), packed)
    assert answer.endswith(str(len(packed)).encode())


# TLS.


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return make_pair(tmp_path, "server")


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def ask_tls(port: int, *pieces: bytes) -> bytes:
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
    try:
        return await said(reader, writer, *pieces)
    finally:
        writer.close()


async def test_requests_over_tls_have_the_same_bounds(
    start: Start, pair: tuple[Path, Path]
) -> None:
    async with start(tls=pair) as port:
        assert status(await ask_tls(port, GET, b"\r\n")) == 200
        assert status(await ask_tls(port, GET, b"A: " + b"b" * 64 * KIB)) == 431


HALF = {"nothing": b"", "three bytes": b"\x16\x03\x01", "a long hello": b"\x16\x03\x01\x3f\xff"}


@pytest.mark.parametrize("name", HALF)
async def test_a_handshake_that_stops_is_not_waited_for(
    start: Start, name: str, pair: tuple[Path, Path]
) -> None:
    async with start(QUICK, tls=pair) as port:
        began = asyncio.get_running_loop().time()
        assert await ask(port, HALF[name]) == b""
        assert asyncio.get_running_loop().time() - began < 20


async def test_half_handshakes_keep_nobody_out(start: Start, pair: tuple[Path, Path]) -> None:
    async with start(QUICK, tls=pair) as port, contextlib.AsyncExitStack() as stack:
        for _ in range(20):
            writer = (await asyncio.open_connection("127.0.0.1", port))[1]
            stack.callback(writer.close)
            writer.write(b"\x16\x03\x01")
        assert status(await ask_tls(port, GET, b"\r\n")) == 200


# Descriptors.


class Exhausted:
    """A listening socket of a process that has no descriptors left, for a while."""

    def __init__(self, bound: socket.socket, times: int) -> None:
        self._bound = bound
        self.times = times
        self.asked = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._bound, name)

    def accept(self) -> object:
        self.asked += 1
        if self.times:
            self.times -= 1
            raise OSError(24, "Too many open files")
        return self._bound.accept()


async def test_without_descriptors_it_rests_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener_module, "REST_SECONDS", 0.05)
    runner = web.ServerRunner(web.Server(healthy, access_log=None))
    await runner.setup()
    bound = Exhausted(listener_module.bind("127.0.0.1", 0), 5)
    listener = Listener(bound, runner.server)  # type: ignore[arg-type]
    listener.start()
    try:
        assert status(await ask(listener.port, GET, b"\r\n")) == 200
    finally:
        listener.close()
        await runner.cleanup()
    assert bound.asked < 15, "it does not ask again and again"
    assert [r.getMessage() for r in caplog.records] == [
        "cannot accept connections: Too many open files"
    ]


class Framework(asyncio.Protocol):
    """Answers each read, and remembers it."""

    made: ClassVar[list[Framework]] = []

    def __init__(self) -> None:
        self.got = b""
        self.made.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.got += data
        self.transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def test_who_only_begins_costs_the_framework_nothing() -> None:
    Framework.made.clear()
    listener = Listener(bind("127.0.0.1", 0), Framework)
    listener.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(GET)
        await writer.drain()
        # Somebody who comes later and asks for something has it all.
        assert status(await ask(listener.port, GET + b"\r\n")) == 204
        assert len(Framework.made) == 1
        assert status(await said(reader, writer, b"A: b\r\n\r\n")) == 204
        assert [each.got for each in Framework.made] == [GET + b"\r\n", GET + b"A: b\r\n\r\n"]
        writer.close()
    finally:
        listener.close()


async def test_the_end_does_not_wait_for_those_who_wait(start: Start) -> None:
    async with start() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        await writer.drain()
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 20
    writer.close()
