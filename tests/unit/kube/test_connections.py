"""Our own HTTP connections, against servers that say every byte themselves."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from edgewise.kube import connections
from edgewise.kube.connections import (
    Answer,
    BrokenAnswer,
    ConnectFailed,
    Connections,
    asked_before_sending,
)
from edgewise.kube.tls import ServerTrust, make_context
from edgewise.kube.transport import kept_alive_socket
from edgewise.testing.eventually import eventually

from .servers import one_request, raw_serving, server_tls, serving

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers the n-th request with the n-th answer, whichever connection it comes on."""

    def __init__(self, *answers: bytes, then_close: bool = False) -> None:
        self.answers = list(answers)
        self.then_close = then_close
        self.heads: list[bytes] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.heads.append(await one_request(reader))
                self.asked.set()
                if not self.answers:
                    await reader.read()  # silent, until the client gives up
                    return
                writer.write(self.answers.pop(0))
                await writer.drain()
                if self.then_close:
                    return
        finally:
            self.gone.set()


@contextlib.asynccontextmanager
async def connected(
    server: Server, *, limit: int = 2, path: str = "", gzip: bool = False
) -> AsyncIterator[Connections]:
    async with raw_serving(server.talk) as url:
        made = Connections(
            url + path,
            limit=limit,
            headers=[("Accept", "application/json")],
            server_name=None,
            socket_factory=kept_alive_socket,
            gzip=gzip,
        )
        try:
            yield made
        finally:
            await made.close()


async def ask(
    made: Connections,
    method: str = "GET",
    path: str = "/x",
    *,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    timeout: float = 5.0,
) -> Answer:
    return await made.request(
        method, path, headers=headers or {}, body=body, tls=None, timeout=timeout
    )


async def test_what_is_sent_is_http() -> None:
    server = Server(OK, OK, OK)
    async with connected(server, path="/prefix") as made:
        await ask(made, "GET", "/a?b=c", headers={"Accept": "*/*"})
        await ask(made, "PATCH", "/a", headers={"Content-Type": "application/json"}, body=b"{}")
        await ask(made, "POST", "/a")
    get, patch, post = ([*head.decode().split("\r\n")] for head in server.heads)
    assert get[0] == "GET /prefix/a?b=c HTTP/1.1"
    assert get[1].startswith("Host: 127.0.0.1:")
    assert get[2:] == ["Accept: */*", "", ""]
    assert {"Content-Type: application/json", "Content-Length: 2"} < set(patch)
    assert "Content-Length: 0" in post
    assert server.connections == 1


EVIL = "x\r\nImpersonate-User: root"


@pytest.mark.parametrize(
    ("path", "accept"), [(f"/{EVIL}", ""), ("/x", EVIL)], ids=["in a path", "in a header"]
)
async def test_a_line_end_does_not_begin_a_header(path: str, accept: str) -> None:
    server = Server(OK)
    async with connected(server) as made:
        with pytest.raises(ValueError, match="line end"):
            await ask(made, path=path, headers={"Accept": accept})
    assert server.heads == []


@pytest.mark.parametrize(
    ("said", "content"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", b"{}"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"{}"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
    ids=["in chunks", "after a word in between", "nothing"],
)
async def test_answers_of_every_shape_leave_the_connection_usable(
    said: bytes, content: bytes
) -> None:
    server = Server(said, OK)
    async with connected(server) as made:
        assert (await ask(made)).content == content
        assert (await ask(made)).content == b"{}"
    assert server.connections == 1


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        OK + b"HTTP/1.1 200 OK\r\nContent-Le",
        OK + b"nonsense",
    ],
    ids=["it closes", "of old", "half of a second answer", "more than was asked for"],
)
async def test_a_connection_that_cannot_be_trusted_is_not_used_again(said: bytes) -> None:
    server = Server(said, OK)
    async with connected(server) as made:
        assert (await ask(made)).content == b"{}"
        assert (await ask(made, "POST")).content == b"{}"
    assert server.connections == 2


async def test_an_answer_without_a_length_lasts_until_the_end() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\n\r\nabc", then_close=True)
    async with connected(server) as made:
        assert (await ask(made)).content == b"abc"


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    ],
    ids=["in its head", "before it began", "before its last chunk"],
)
async def test_half_an_answer_is_none(said: bytes) -> None:
    server = Server(said, OK, then_close=True)
    async with connected(server) as made:
        with pytest.raises(ConnectionResetError):
            await ask(made)
    assert len(server.heads) == 1  # the server had begun to answer: nothing is repeated


async def test_what_is_no_http_is_told() -> None:
    async with connected(Server(b"SSH-2.0-OpenSSH_9.2\r\n")) as made:
        with pytest.raises(BrokenAnswer, match="not answer in HTTP"):
            await ask(made)


async def test_a_broken_compression_is_told() -> None:
    body = gzip.compress(b"{}")[:-9]
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with connected(Server(head + body), gzip=True) as made:
        with pytest.raises(BrokenAnswer, match="decompressed"):
            await ask(made)


async def test_who_gives_up_takes_the_connection_along() -> None:
    server = Server()
    async with connected(server) as made:
        asking = asyncio.create_task(ask(made))
        await asyncio.wait_for(server.asked.wait(), 5)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(server.gone.wait(), 5)
        server.answers.append(OK)
        assert (await ask(made)).content == b"{}"
    assert server.connections == 2


async def test_no_more_at_once_than_allowed_and_waiting_counts_as_time() -> None:
    server = Server()
    async with connected(server, limit=1) as made:
        first = asyncio.create_task(ask(made))
        await asyncio.wait_for(server.asked.wait(), 5)
        with pytest.raises(TimeoutError):
            await ask(made, timeout=0.1)
        first.cancel()
        await asyncio.wait([first])
        server.answers.append(OK)
        assert (await ask(made)).content == b"{}"
    assert len(server.heads) == 2


async def test_idle_connections_are_closed_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.1)
    server = Server(OK, OK)
    async with connected(server) as made:
        await ask(made)
        await asyncio.wait_for(server.gone.wait(), 5)
        await ask(made, "POST")
    assert server.connections == 2


async def test_a_server_that_is_slow_to_connect_to_is_given_up() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        with socket.socket() as first, socket.socket() as second:
            for each in (first, second):  # after these nobody gets into its queue
                each.setblocking(False)
                each.connect_ex(address)
            made = Connections(
                f"http://127.0.0.1:{address[1]}",
                limit=1,
                headers=[],
                server_name=None,
                socket_factory=kept_alive_socket,
            )
            with pytest.raises(ConnectFailed) as told:
                await ask(made, timeout=0.2)
            await made.close()
    assert isinstance(told.value.os_error, TimeoutError)


async def test_permission_is_asked_when_the_connection_is_there() -> None:
    server = Server()
    may_act = True

    def permit() -> None:
        if not may_act:
            raise PermissionError

    async with connected(server, limit=1) as made:
        first = asyncio.create_task(ask(made))
        await asyncio.wait_for(server.asked.wait(), 5)
        with asked_before_sending(permit):
            waiting = asyncio.create_task(ask(made, "POST"))
        await asyncio.sleep(0)
        may_act = False  # while it waits for its turn
        first.cancel()
        with pytest.raises(PermissionError):
            await waiting
        server.answers.append(OK)
        assert (await ask(made)).content == b"{}"  # who was not asked is not held up
    assert [head[:4] for head in server.heads] == [b"GET ", b"GET "]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def hang_up(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def say_nothing(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="it counts open files in /proc")
@pytest.mark.parametrize("server", [hang_up, say_nothing])
async def test_tls_that_fails_leaves_no_socket_and_disturbs_no_other(
    server: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> None:
    tls = ssl.create_default_context()

    async def fail_often(made: Connections) -> None:
        for _ in range(10):  # at once again, while the loop still cleans up
            with pytest.raises(ConnectFailed):
                await made.request("GET", "/", headers={}, body=None, tls=tls, timeout=0.05)

    async with raw_serving(server) as url:
        made = Connections(
            url, limit=8, headers=[], server_name=None, socket_factory=kept_alive_socket
        )
        before = open_files()
        await asyncio.gather(*(fail_often(made) for _ in range(8)))
        await made.close()
        await eventually(lambda: as_before(before), within=5)


async def as_before(count: int) -> bool:
    return open_files() <= count


async def test_who_gives_up_at_any_moment_of_connecting_disturbs_no_other(tmp_path: Path) -> None:
    async def hello(_request: web.Request) -> web.Response:
        return web.Response(body=b"{}")

    trust = ServerTrust(verify=False)
    tls = make_context(trust, None)
    async with serving(hello, server_tls(tmp_path)) as url:
        for rounds in range(80):
            made = Connections(
                url, limit=8, headers=[], server_name=None, socket_factory=kept_alive_socket
            )

            async def asks(made: Connections = made) -> Answer:
                return await made.request("GET", "/", headers={}, body=None, tls=tls, timeout=5)

            gives_up = asyncio.create_task(asks())
            for _ in range(rounds):
                await asyncio.sleep(0)
            gives_up.cancel()
            await asyncio.wait([gives_up])
            assert (await asks()).content == b"{}"
            await made.close()
