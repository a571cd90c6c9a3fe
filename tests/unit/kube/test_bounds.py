"""Servers that send more than anybody asked for: each is refused, and soon."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
from collections.abc import Iterator

import aiohttp
import pytest
from aiohttp import web

from edgewise.kube import paging
from edgewise.kube.bounds import LARGEST_EVENT, LARGEST_HEAD, MIB, Bounds, unpacker
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.connections import AnswerTooLarge, BrokenAnswer, Connections
from edgewise.kube.errors import KubeError, TooLarge, Unreachable
from edgewise.kube.kinds.core import ConfigMap
from edgewise.kube.transport import kept_alive_socket
from edgewise.kube.watching import LineSplitter

from .servers import one_request, raw_serving, serving
from .test_connections import OK, Server, ask, connected

SMALL = Bounds(object=MIB, page=MIB, whole=2 * MIB, together=4 * MIB)
PIECE = b"x" * 65_536
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BOMB = gzip.compress(bytes(64 * MIB))


class Flood:
    """Answers with `first`, and then with `rest` until nobody listens any more."""

    def __init__(self, first: bytes, rest: bytes) -> None:
        self.first = first
        self.rest = rest
        self.sent = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await one_request(reader)
        writer.write(self.first)
        for _ in range(4096):
            writer.write(self.rest)
            await writer.drain()
            self.sent += len(self.rest)


FLOODS = {
    "a body without a length": (b"HTTP/1.1 200 OK\r\n\r\n", PIECE),
    "a body in chunks": (CHUNKED, b"10000\r\n" + PIECE + b"\r\n"),
    "a body that says how long it is": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 4000000000\r\n\r\n",
        PIECE,
    ),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n" * 4096),
    "one header": (b"HTTP/1.1 200 OK\r\nX-More: ", PIECE),
    "its first line": (b"HTTP/1.1 200 ", PIECE),
    "answers in between": (b"", b"HTTP/1.1 103 Early Hints\r\nX: 1\r\n\r\n" * 512),
    "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X-More: 1\r\n" * 4096),
    "the extension of a chunk": (CHUNKED + b"2;", PIECE),
}


@pytest.mark.parametrize("case", FLOODS)
async def test_an_answer_without_end_in(case: str) -> None:
    flood = Flood(*FLOODS[case])
    async with raw_serving(flood.talk) as url, Client(Access(server=url), bounds=SMALL) as client:
        with pytest.raises(Unreachable):
            await asyncio.wait_for(client.version(), 5)
        with pytest.raises(Unreachable):
            await asyncio.wait_for(client.get(ConfigMap, "a", "b"), 5)
    # Buffers of both sides included.
    assert flood.sent < 32 * MIB


async def test_what_is_too_large_has_a_type_of_its_own() -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MIB + 1)
    async with (
        raw_serving(Flood(said, b"").talk) as url,
        Client(Access(server=url), bounds=SMALL) as client,
    ):
        with pytest.raises(TooLarge, match=r"more than 1,048,576 bytes"):
            await client.get(ConfigMap, "a", "b")


def answer(body: bytes, coding: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n"
    return head % (coding, len(body)) + body


async def test_what_unpacks_to_more_than_was_asked_for_is_not_unpacked() -> None:
    async with connected(Server(answer(BOMB, b"gzip")), gzip=True) as made:
        with pytest.raises(AnswerTooLarge):
            await made.request("GET", "/", headers={}, body=None, tls=None, timeout=5, largest=MIB)


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"gzip, gzip"])
async def test_a_coding_that_was_not_asked_for_is_refused(coding: bytes) -> None:
    async with connected(Server(answer(gzip.compress(b"{}"), coding))) as made:
        with pytest.raises(BrokenAnswer, match="not asked for"):
            await ask(made)


@pytest.mark.parametrize("coding", [b"deflate", b"br", b"gzip, gzip"])
async def test_who_asks_for_gzip_gets_no_other_coding(coding: bytes) -> None:
    async with connected(Server(answer(gzip.compress(b"{}"), coding)), gzip=True) as made:
        with pytest.raises(BrokenAnswer, match="not asked for"):
            await ask(made)


@pytest.mark.parametrize(
    "body", [gzip.compress(b"{}")[:-9], gzip.compress(b"{}") * 2, b"{}"], ids=["cut", "two", "none"]
)
def test_what_is_not_one_whole_gzip_is_broken(body: bytes) -> None:
    packed = unpacker("gzip", gzip=True, largest=MIB)
    assert packed is not None

    def unpack() -> bytes:
        plain = packed.feed(body)
        packed.finish()
        return plain

    with pytest.raises(OSError, match="cannot be decompressed"):
        unpack()


HINTS = b"HTTP/1.1 103 Early Hints\r\n%s\r\n\r\n"
LATE = CHUNKED + b"2\r\n{}\r\n0\r\n%s\r\n\r\n"


@pytest.mark.parametrize("header", [b"Retry-After: 99", b"Content-Encoding: gzip"])
@pytest.mark.parametrize("said", [HINTS + OK, LATE], ids=["in between", "in a trailer"])
async def test_headers_that_are_not_of_the_answer_say_nothing_about_it(
    header: bytes, said: bytes
) -> None:
    server = Server(said.replace(b"%s", header), OK)
    async with connected(server) as made:
        first = await ask(made)
        assert (first.content, first.retry_after) == (b"{}", None)
        assert (await ask(made)).content == b"{}"
    assert server.connections == 1


async def test_the_length_of_an_answer_in_between_is_not_that_of_the_answer() -> None:
    said = HINTS.replace(b"%s", b"Content-Length: 5") + b"HTTP/1.1 200 OK\r\n\r\nabc"
    async with connected(Server(said, then_close=True)) as made:
        assert (await ask(made)).content == b"abc"


async def test_answers_under_way_are_bounded_together() -> None:
    almost = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 999_999

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await one_request(reader)
        writer.write(almost)
        await reader.read()

    async with raw_serving(talk) as url:
        made = Connections(
            url,
            limit=8,
            headers=[],
            server_name=None,
            socket_factory=kept_alive_socket,
            together=4 * MIB,
        )
        asked = [asyncio.create_task(ask(made, timeout=1)) for _ in range(8)]
        results = await asyncio.gather(*asked, return_exceptions=True)
        refused = [each for each in results if isinstance(each, BrokenAnswer)]
        assert len(refused) == 4
        assert all(isinstance(each, TimeoutError | BrokenAnswer) for each in results)
        # What was given up is not counted any more.
        assert made._room.left == 4 * MIB
        await made.close()


# Watches and logs


async def first_change(client: Client) -> object:
    changes = client.watch(ConfigMap, "ns", resource_version="1", idle_timeout=0.5)
    async with contextlib.aclosing(changes):
        return await anext(changes)


async def test_an_event_without_end_is_given_up() -> None:
    flood = Flood(CHUNKED, b"10000\r\n" + PIECE + b"\r\n")
    async with raw_serving(flood.talk) as url, Client(Access(server=url), bounds=SMALL) as client:
        with pytest.raises(TooLarge, match="watch event"):
            await first_change(client)
    assert flood.sent < 16 * MIB


def test_a_long_line_of_a_log_comes_in_pieces() -> None:
    lines = LineSplitter(10, cut=True)
    assert lines.feed(b"12345678") == []
    assert lines.feed(b"9012") == [b"123456789012"]
    assert lines.feed(b"3\n") == [b"3"]


def test_the_largest_object_of_etcd_passes() -> None:
    lines = LineSplitter()
    event = b"x" * (3 * MIB)
    assert len(event) < LARGEST_EVENT
    cut = [event[at : at + 4096] for at in range(0, len(event), 4096)]
    assert [found for chunk in (*cut, b"\n") for found in lines.feed(chunk)] == [event]


@pytest.mark.parametrize("status", [200, 500])
async def test_a_stream_that_is_packed_without_being_asked_is_refused(status: int) -> None:
    async def pack(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(status=status, body=BOMB, headers={"Content-Encoding": "gzip"})

    async with serving(pack) as url, Client(Access(server=url, compress=True)) as client:
        with pytest.raises(Unreachable, match="not asked for"):
            await first_change(client)


async def test_the_refusal_of_a_watch_is_bounded() -> None:
    flood = Flood(b"HTTP/1.1 500 No\r\n\r\n", PIECE)
    async with raw_serving(flood.talk) as url, Client(Access(server=url)) as client:
        with pytest.raises(TooLarge):
            await first_change(client)
    assert flood.sent < 16 * MIB


@pytest.mark.parametrize("case", ["headers", "one header", "its first line", "answers in between"])
async def test_a_watch_that_does_not_begin_is_given_up_after(case: str) -> None:
    flood = Flood(*FLOODS[case])
    async with raw_serving(flood.talk) as url, Client(Access(server=url)) as client:
        with pytest.raises(KubeError):
            await first_change(client)
    assert flood.sent < 64 * MIB


# Proxies


def through(url: str, **fields: object) -> Access:
    return Access(server="http://api.example", proxy=url, **fields)  # type: ignore[arg-type]


async def test_an_answer_without_end_through_a_proxy() -> None:
    flood = Flood(*FLOODS["a body in chunks"])
    async with raw_serving(flood.talk) as url, Client(through(url), bounds=SMALL) as client:
        with pytest.raises(TooLarge, match="more than 1,048,576 bytes"):
            await client.get(ConfigMap, "a", "b")
    assert flood.sent < 16 * MIB


async def test_through_a_proxy_gzip_is_unpacked_within_bounds() -> None:
    bodies = iter([gzip.compress(b'{"metadata": {"name": "a"}}'), BOMB])

    async def pack(_: web.Request) -> web.Response:
        return web.Response(body=next(bodies), headers={"Content-Encoding": "gzip"})

    async with serving(pack) as url, Client(through(url, compress=True), bounds=SMALL) as client:
        assert (await client.get(ConfigMap, "a", "b")).metadata.name == "a"
        with pytest.raises(TooLarge):
            await client.get(ConfigMap, "a", "b")
    async with serving(pack) as url, Client(through(url)) as client:
        bodies = iter([BOMB])
        with pytest.raises(Unreachable, match="not asked for"):
            await client.get(ConfigMap, "a", "b")


# Commands


async def shouting(frame: int, times: int, request: web.Request) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",), max_msg_size=0)
    await socket.prepare(request)
    with contextlib.suppress(ConnectionError, aiohttp.ClientError):
        for _ in range(times):
            await socket.send_bytes(b"\x01" + b"x" * frame)
    return socket


@pytest.mark.parametrize(
    ("frame", "times"), [(32_768, 2000), (32 * MIB, 1)], ids=["in all", "in one frame"]
)
async def test_a_command_that_prints_without_end_is_given_up(frame: int, times: int) -> None:
    async def shout(request: web.Request) -> web.StreamResponse:
        return await shouting(frame, times, request)

    async with serving(shout) as url, Client(Access(server=url)) as client:
        with pytest.raises(Unreachable):
            await client.exec("pod", "ns", ["yes"])


# Lists


class Lister:
    """Answers lists as an API server whose objects have `size` bytes each."""

    def __init__(self, count: int, size: int, largest: int) -> None:
        self.count, self.size, self.largest = count, size, largest
        self.limits: list[int] = []

    async def request(
        self, method: str, path: str, *, params: dict[str, str], largest: int
    ) -> bytes:
        assert (method, path) == ("GET", "/list")
        limit, start = int(params["limit"]), int(params.get("continue", 0))
        self.limits.append(limit)
        names = range(start, min(start + limit, self.count))
        if len(names) * self.size > largest:
            raise TooLarge("too large")
        items = ",".join(f'{{"metadata":{{"name":"{name}"}}}}' for name in names)
        more = names.stop if names.stop < self.count else ""
        return f'{{"metadata":{{"continue":"{more}"}},"items":[{items}]}}'.encode()


async def listed(lister: Lister) -> Iterator[str]:
    names: list[str] = []
    found = paging.pages(
        lister.request, ConfigMap, "/list", {"limit": "500"}, Bounds(page=lister.largest)
    )
    async for page in found:
        names += [item.metadata.name for item in page.items]
    return iter(names)


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones() -> None:
    lister = Lister(count=600, size=1000, largest=32_000)
    assert list(await listed(lister)) == [str(name) for name in range(600)]
    assert lister.limits[:4] == [500, 125, 31, 31]


async def test_an_object_that_is_too_large_by_itself_is_told() -> None:
    with pytest.raises(TooLarge):
        await listed(Lister(count=3, size=1000, largest=999))


async def test_a_list_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "MOST_PAGES", 20)
    asked = itertools.count()

    async def request(*_: object, **__: object) -> bytes:
        return b'{"metadata":{"continue":"%d"},"items":[]}' % next(asked)

    with pytest.raises(TooLarge, match="without end"):
        async for _ in paging.pages(request, ConfigMap, "/", {"limit": "1"}, Bounds()):
            pass
    assert next(asked) == 20


async def test_a_document_of_many_small_values_is_refused_where_that_is_bounded() -> None:
    async def dense(_: web.Request) -> web.Response:
        data = ",".join(f'"{number}":""' for number in range(2000))
        return web.Response(body=f'{{"metadata":{{"name":"a"}},"data":{{{data}}}}}'.encode())

    async with serving(dense) as url:
        async with Client(Access(server=url), bounds=Bounds(values=1000)) as client:
            with pytest.raises(TooLarge, match="more than 1,000 values"):
                await client.get(ConfigMap, "a", "b")
        async with Client(Access(server=url)) as client:
            assert len((await client.get(ConfigMap, "a", "b")).data) == 2000


def test_a_head_has_room_for_what_servers_send() -> None:
    assert LARGEST_HEAD >= 32 * 1024
