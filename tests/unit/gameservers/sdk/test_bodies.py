"""What sidecars send to the operator, and games to their sidecar: in pieces, and too much."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol

from edgewise.agents.sidecar.said import SaidBook
from edgewise.agents.sidecar.sdk import LARGEST_BODY, Mistake, Sdk, serve_sdk
from edgewise.agents.sidecar.told import Told
from edgewise.gameservers.sdk import handlers
from edgewise.gameservers.sdk.words import Said
from edgewise.testing.ports import free_port


def reader() -> StreamReader:
    loop = asyncio.get_running_loop()
    protocol = BaseProtocol(loop)
    protocol.connection_made(asyncio.Transport())
    return StreamReader(protocol, 2**16, loop=loop)


async def test_a_body_that_comes_in_pieces_is_read_whole() -> None:
    content = reader()
    reading = asyncio.create_task(handlers.read_body(content))
    for piece in (b'{"ready":', b"true}"):
        content.feed_data(piece)
        await asyncio.sleep(0)
    content.feed_eof()
    assert await reading == b'{"ready":true}'


async def test_no_more_of_a_body_is_kept_than_it_may_have() -> None:
    content = reader()
    content.feed_data(b"x" * (handlers.LARGEST_BODY * 2))
    content.feed_eof()
    assert len(await handlers.read_body(content)) == handlers.LARGEST_BODY + 1


async def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "BODY_SECONDS", 0.05)
    content = reader()
    content.feed_data(b"{")
    with pytest.raises(TimeoutError):
        await handlers.read_body(content)


def test_all_that_a_game_may_say_fits_into_one_call_to_the_operator(tmp_path: Path) -> None:
    book = SaidBook(tmp_path / "said.json")
    sdk = Sdk(book, Told("one"))
    for number in range(3):
        sdk.post("/annotations", {f"a{number}": "\N{SNOWMAN}" * 1024})
    with pytest.raises(Mistake, match="all annotations together"):
        sdk.post("/annotations", {"a4": "\N{SNOWMAN}" * 1024})
    for number in range(32):
        sdk.post("/labels", {f"{number:02}" + "n" * 61: "v" * 63})
    sent = json.dumps(book.words()[0]).encode()
    assert len(sent) < handlers.LARGEST_BODY
    assert msgspec.json.decode(sent, type=Said).annotations


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[tuple[int, SaidBook]]:
    book, port = SaidBook(tmp_path / "said.json"), free_port()
    server = serve_sdk(port, book, Told("one"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield port, book
    server.shutdown()
    server.server_close()


def test_a_body_in_chunks_is_refused_and_not_taken_for_an_empty_one(
    sidecar: tuple[int, SaidBook],
) -> None:
    port, book = sidecar
    request = (
        b"POST /shutdown HTTP/1.1\r\nHost: sdk\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'13\r\n{"shutdown": false}\r\n0\r\n\r\n'
    )
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request)
        answer = connection.recv(65_536) + connection.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"not in chunks" in answer
    assert book.get("shutdown") is None


@pytest.mark.parametrize("length", ["9" * 5000, str(LARGEST_BODY + 1), "-1"])
def test_a_length_that_cannot_be_meant_is_refused(
    sidecar: tuple[int, SaidBook], length: str
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", sidecar[0], timeout=5)
    connection.request("POST", "/ready", headers={"Content-Length": length})
    assert connection.getresponse().status == 400
