"""What a connection is before it has a transport: all ways in which it may end there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from edgewise.runtime.listening.doorstep import Doorstep
from edgewise.runtime.listening.listener import Limits, Listener, bind
from edgewise.runtime.listening.request_guard import RequestGuard, RequestLimits
from edgewise.testing.eventually import eventually
from tests.unit.kube.pems import make_pair
from tests.unit.runtime.listening.test_listener import GET, KIB, QUICK, Framework, ask, said, status

Loop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Loop:
    return request.param  # type: ignore[no-any-return]


@contextlib.asynccontextmanager
async def listening(
    limits: Limits | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Listener]:
    listener = Listener(bind("127.0.0.1", 0), Framework, limits, tls=tls)
    listener.start()
    try:
        yield listener
    finally:
        listener.close()


async def empty(listener: Listener) -> None:
    async with asyncio.timeout(5):
        while len(listener):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)


class Beginner:
    """Reads first bytes, and remembers what it was told."""

    def __init__(self) -> None:
        self.got = b""
        self.lost: list[Exception | None] = []
        self.door: Doorstep | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, Doorstep)
        self.door = transport

    def received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Guest(asyncio.Protocol):
    """Whom a connection is handed over to."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.told.append("made")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")


@contextlib.contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        yield ours, theirs


def at_the_door(ours: socket.socket) -> tuple[Doorstep, Beginner]:
    beginner = Beginner()
    return Doorstep(asyncio.get_running_loop(), ours, beginner), beginner


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_listener_does_the_same_on_both_loops(loop: Loop, tmp_path: Path) -> None:
    """In pieces, whole, refused, given up in the middle, and over TLS."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*make_pair(tmp_path, "server"))
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    async def main() -> list[int]:
        found = []
        async with listening(QUICK) as listener:
            for pieces in ([GET, b"\r\n"], [GET + b"\r\n"], [GET + b"A: " + b"b" * 64 * KIB]):
                found.append(status(await ask(listener.port, *pieces)))
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            for _ in range(2):  # the second one comes to the transport, not to the door
                found.append(status(await said(reader, writer, GET + b"\r\n")))
            writer.close()
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(GET)
            writer.close()
            found.append(status(await ask(listener.port, b"GET / HT")))
            await empty(listener)
        async with listening(QUICK, tls) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=trusting)
            found.append(status(await said(reader, writer, GET, b"\r\n")))
            writer.close()
            assert await ask(listener.port, b"\x16\x03\x01") == b""
            await empty(listener)
        return found

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(main()) == [204, 204, 431, 204, 204, 408, 204]


@pytest.mark.parametrize("said_before", [b"", GET], ids=["nothing", "a beginning"])
async def test_who_says_no_more_is_gone_at_once(said_before: bytes) -> None:
    """Half closed: nothing whole can come any more, so nothing is waited for."""
    async with listening() as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(said_before)
        writer.write_eof()
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        await empty(listener)
        writer.close()


async def test_who_asks_and_goes_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The end is there already while the connection gets its transport."""
    async with listening() as listener:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", listener.port)) as made:
                made.sendall(GET + b"\r\n")
        await asyncio.sleep(0.05)
        await empty(listener)
    assert [r.getMessage() for r in caplog.records] == []


async def test_who_is_reset_at_the_door_is_gone() -> None:
    async with listening() as listener:
        made = socket.create_connection(("127.0.0.1", listener.port))
        made.sendall(GET)
        await eventually(lambda: len(listener) == 1, within=5)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        made.close()
        await empty(listener)


async def test_a_refusal_for_which_there_is_no_room_breaks_nothing() -> None:
    with pair() as (ours, _):
        door, beginner = at_the_door(ours)
        with contextlib.suppress(BlockingIOError):
            while True:
                ours.send(b"x" * 65536)
        door.write(b"HTTP/1.1 431 ...")
        door.write_eof()
        door.close()
        await settle()
        assert beginner.lost == [None]
        assert ours.fileno() == -1


async def test_a_refusal_after_the_other_side_went_breaks_nothing() -> None:
    with pair() as (ours, theirs):
        door, beginner = at_the_door(ours)
        theirs.close()
        door.write(b"HTTP/1.1 408 ...")
        door.write_eof()
        await settle()
        assert beginner.lost == [None]
        assert door.is_closing()


async def test_it_ends_once() -> None:
    with pair() as (ours, _):
        door, beginner = at_the_door(ours)
        door.close()
        door.abort()
        door.leave_for(Guest())
        await settle()
        assert beginner.lost == [None]


async def test_what_comes_while_it_leaves_is_the_protocols() -> None:
    class Reading(Guest):
        def data_received(self, data: bytes) -> None:
            self.told.append(data.decode())

    with pair() as (ours, theirs):
        door, beginner = at_the_door(ours)
        theirs.sendall(b"first")
        await settle()
        door.leave_for(guest := Reading())
        theirs.sendall(b"second")
        theirs.close()
        await eventually(lambda: "lost" in guest.told, within=5)
        assert beginner.got == b"first"
        assert guest.told == ["made", "second", "lost"]
        assert beginner.lost == [], "its protocol was told"


async def test_who_is_dropped_while_it_leaves_is_dropped() -> None:
    with pair() as (ours, theirs):
        door, beginner = at_the_door(ours)
        door.leave_for(guest := Guest())
        door.abort()
        await eventually(lambda: "lost" in guest.told, within=5)
        assert guest.told == ["made", "lost"]
        assert beginner.lost == []
        theirs.settimeout(5)
        assert theirs.recv(1) == b""


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
async def test_a_loop_that_ends_meanwhile_leaves_no_descriptor(turns: int) -> None:
    """Who is cancelled before it begins cannot clean up after itself."""
    with pair() as (ours, _):
        door, beginner = at_the_door(ours)
        door.leave_for(guest := Guest())
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await settle()
        if door._leaving is not None and not door._leaving.cancelled():
            door._leaving.result()[0].abort()  # it was through
            await settle()
        assert ours.fileno() == -1
        told = len(beginner.lost) + guest.told.count("lost")
        assert told == 1, "whoever has the place is told, once"


async def test_a_transport_that_cannot_be_made_leaves_nothing() -> None:
    with pair() as (ours, _):
        door, beginner = at_the_door(ours)

        async def refuses(*_: object) -> None:
            raise RuntimeError("this loop is closing")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", refuses)
            door.leave_for(Guest())
            await settle()
        assert [str(error) for error in beginner.lost] == ["this loop is closing"]
        assert ours.fileno() == -1


async def test_a_mistake_of_ours_holds_no_place() -> None:
    class Broken(Beginner):
        def received(self, data: bytes) -> None:
            raise KeyError(data)

    loop, seen = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
    with pair() as (ours, theirs):
        beginner = Broken()
        Doorstep(loop, ours, beginner)
        theirs.sendall(b"x")
        await settle()
        assert ours.fileno() == -1
        assert [type(error) for error in seen + beginner.lost] == [KeyError, KeyError]


class Ignores:
    """A watcher who does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


async def test_headers_in_small_pieces_cost_what_they_are_long() -> None:
    """Thousands of objects of two bytes each would be twenty times as much."""
    with pair() as (ours, _):
        guard = RequestGuard(Framework, RequestLimits(), Ignores())  # type: ignore[arg-type]
        door = Doorstep(asyncio.get_running_loop(), ours, guard)
        guard.received(GET + b"A: ")
        tracemalloc.start()
        try:
            for _ in range(15 * KIB):
                guard.received(b"".join((b"b", b"c")))  # an object of its own, as a read makes it
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert not guard._refused
        assert held < 128 * KIB
        door.abort()
        await settle()


async def test_time_runs_at_the_door(caplog: pytest.LogCaptureFixture) -> None:
    """A handshake that was asked for, and whose turn has not come, is not waited for either."""
    with contextlib.ExitStack() as stack:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        async with listening(QUICK, tls) as listener:
            listener._handshakes._scheduled = True  # no turn ever comes
            made = stack.enter_context(socket.create_connection(("127.0.0.1", listener.port)))
            made.sendall(b"\x16\x03\x01\x00\x01x")
            await eventually(lambda: len(listener._handshakes) == 1, within=5)
            await empty(listener)
            assert len(listener._handshakes) == 0
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []
