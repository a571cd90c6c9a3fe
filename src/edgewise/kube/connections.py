"""HTTP/1.1 to one server over connections that are kept, and nothing that an API server lacks.

Every write of a controller passes here, and what a request costs is most of what a controller
costs: with aiohttp, which does the rest of this package, twice as much as here
(docs/design/runtime.md has the figures). No proxies, redirects,
cookies, upgrades or HEAD.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import NamedTuple, cast

import aiohappyeyeballs
import httptools
from yarl import URL

from edgewise.errors import ReadableError
from edgewise.kube.bounds import (
    LARGEST_HEAD,
    LARGEST_PAGE,
    LARGEST_TOGETHER,
    Broken,
    TooMuch,
    Unpacker,
    unpacker,
)

CONNECT_TIMEOUT_SECONDS = 10.0
# Less than what servers and the boxes between allow: who closes first is not surprised.
IDLE_SECONDS = 15.0
NEXT_ADDRESS_SECONDS = 0.25
PIECE = LARGEST_HEAD // 2
IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})
# Below, a server only says that its answer is still to come.
FINAL = 200
WITHOUT_BODY = frozenset({"GET", "DELETE"})

SocketFactory = Callable[[tuple[int, int, int, str, tuple[object, ...]]], socket.socket]
Headers = Sequence[tuple[str, str]]


_permit: ContextVar[Callable[[], None] | None] = ContextVar("permit", default=None)


@contextlib.contextmanager
def asked_before_sending(permit: Callable[[], None]) -> Iterator[None]:
    """Requests that are made inside ask `permit` at the last moment, and are not sent if it raises.

    Between the wish to send and the sending, a request may wait for its turn or for a
    connection, and a process may be frozen meanwhile.
    """
    before = _permit.set(permit)
    try:
        yield
    finally:
        _permit.reset(before)


class ConnectFailed(ReadableError):
    """There is no connection, so nothing was sent; `os_error` says why."""

    def __init__(self, os_error: OSError) -> None:
        super().__init__(str(os_error))
        self.os_error = os_error


class BrokenAnswer(ReadableError, OSError):
    """What came is no HTTP."""


class AnswerTooLarge(BrokenAnswer):
    """It was not read to its end."""


class Answer(NamedTuple):
    status: int
    content: bytes
    retry_after: str | None


class Connections:
    """At most `limit` requests at once; those that follow wait for their turn."""

    def __init__(
        self,
        server: str,
        *,
        limit: int,
        headers: Headers,
        server_name: str | None,
        socket_factory: SocketFactory,
        gzip: bool = False,
        together: int = LARGEST_TOGETHER,
    ) -> None:
        """`gzip`: it is asked for in `headers`. `together` bounds all answers under way."""
        url = URL(server)
        self._host, self._port = url.raw_host or "", url.port or 443
        self._prefix = url.raw_path.rstrip("/")
        self._server_name = server_name or self._host.rstrip(".")
        self._headers: Headers = [("Host", url.host_port_subcomponent or ""), *headers]
        self._socket_factory = socket_factory
        self._gzip = gzip
        self._room = _Room(together)
        self._turns = asyncio.Semaphore(limit)
        self._loop = asyncio.get_running_loop()
        self._idle: deque[_Connection] = deque()  # the one used last at the end
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        tls: ssl.SSLContext | None,
        timeout: float,
        largest: int = LARGEST_PAGE,
    ) -> Answer:
        """Raises `ConnectFailed` where nothing was sent, else `OSError` if there is no answer.

        An answer of more than `largest` bytes is none.
        """
        deadline = self._loop.time() + timeout
        message = self._message(method, path, headers, body)
        if self._turns.locked():
            async with asyncio.timeout_at(deadline):
                await self._turns.acquire()
        else:
            await self._turns.acquire()
        try:
            kept = self._kept(tls)
            if kept is not None:
                try:
                    return await self._exchange(kept, message, deadline, largest)
                except OSError:
                    # A server may close a connection at the moment when it is used again.
                    if not kept.closed_unheard or method not in IDEMPOTENT:
                        raise
            fresh = await self._connect(tls, deadline)
            return await self._exchange(fresh, message, deadline, largest)
        finally:
            self._turns.release()

    async def close(self) -> None:
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in self._idle:
            connection.drop()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop closes their sockets in its next round

    def _message(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        lines = [f"{method} {self._prefix}{path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self._headers if name not in headers]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None or method not in WITHOUT_BODY:
            lines.append(f"Content-Length: {len(body or b'')}")
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
            raise ValueError("a path or a header of a request has a line end in it")
        return head.encode() + b"\r\n\r\n" + (body or b"")

    async def _exchange(
        self, connection: _Connection, message: bytes, deadline: float, largest: int
    ) -> Answer:
        try:
            if permit := _permit.get():
                permit()
            answer = await connection.exchange(message, deadline, largest)
        except BaseException:  # whoever gives up leaves an answer behind that is for nobody else
            connection.drop()
            raise
        if connection.reusable and not self._closed:
            self._keep(connection)
        else:
            connection.drop()
        return answer

    # Connections that are kept

    def _kept(self, tls: ssl.SSLContext | None) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.closed:
                continue
            # Another context is another user, or another certificate of the same one.
            if connection.tls is tls and self._loop.time() - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.drop()
        return None

    def _keep(self, connection: _Connection) -> None:
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(IDLE_SECONDS, self._drop_idle)

    def _drop_idle(self) -> None:
        self._sweep = None
        now = self._loop.time()
        while self._idle and now - self._idle[0].idle_since >= IDLE_SECONDS:
            self._idle.popleft().drop()
        if self._idle:
            due = self._idle[0].idle_since + IDLE_SECONDS
            self._sweep = self._loop.call_at(due, self._drop_idle)

    async def _connect(self, tls: ssl.SSLContext | None, deadline: float) -> _Connection:
        try:
            async with asyncio.timeout_at(
                min(deadline, self._loop.time() + CONNECT_TIMEOUT_SECONDS)
            ):
                # The loop owns the socket from here on, and closes it also where TLS fails.
                _, connection = await self._loop.create_connection(
                    lambda: _Connection(tls, self._loop, self._room, gzip=self._gzip),
                    sock=await self._reach(),
                    ssl=tls,
                    server_hostname=self._server_name if tls else None,
                )
        except OSError as error:
            raise ConnectFailed(error) from error
        return connection

    async def _reach(self) -> socket.socket:
        addresses = await self._loop.getaddrinfo(
            self._host.encode(), self._port, type=socket.SOCK_STREAM
        )
        return await aiohappyeyeballs.start_connection(
            addresses,
            happy_eyeballs_delay=NEXT_ADDRESS_SECONDS,
            interleave=1,
            socket_factory=cast("aiohappyeyeballs.SocketFactoryType", self._socket_factory),
        )


class _Room:
    """The memory that answers under way may take together."""

    def __init__(self, bytes: int) -> None:
        self.left = bytes


class _Connection(asyncio.Protocol):
    """One connection: a request, its answer, and only then the next request."""

    def __init__(
        self,
        tls: ssl.SSLContext | None,
        loop: asyncio.AbstractEventLoop,
        room: _Room,
        *,
        gzip: bool,
    ) -> None:
        self.tls = tls
        self.idle_since = 0.0
        self.closed_unheard = False  # by the server, after a request and before any answer
        self.reusable = False  # the answer is complete, and the server lets others follow
        self._loop = loop
        self._room = room
        self._gzip = gzip
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._begin_head()
        self._begin(0)

    def _begin(self, largest: int) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._content: list[bytes] = []
        self._largest = largest
        self._received = 0
        self._packed = 0  # of the body, as it came
        self._held = 0  # of the body, as it is kept
        self._lasts_until_closed = False

    def _begin_head(self) -> None:
        self._in_head = True
        self._retry_after: str | None = None
        self._coding = ""
        self._length = b""
        self._has_length = False
        self._unpacker: Unpacker | None = None

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    async def exchange(self, message: bytes, deadline: float, largest: int) -> Answer:
        if self._transport is None:
            raise ConnectionResetError("it was closed")
        self._begin(largest)
        self.reusable = False
        self._answer = self._loop.create_future()
        timer = self._loop.call_at(deadline, self._fail, TimeoutError())
        try:
            self._transport.write(message)
            return await self._answer
        finally:
            timer.cancel()
            self._answer = None
            self._let_go()

    def drop(self) -> None:
        """Without a TLS farewell, which would wait for a peer that may be long gone."""
        if self._transport is not None:
            self._transport.abort()

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():  # nobody asked
            self.reusable = False
            self.drop()
            return
        if len(data) <= PIECE:
            self._parse(data)
            return
        # A large piece may hold thousands of headers, and is not parsed to its end then.
        view = memoryview(data)
        for start in range(0, len(data), PIECE):
            self._parse(view[start : start + PIECE])
            if self._answer.done() and not self.reusable:
                return

    def _parse(self, data: bytes | memoryview) -> None:
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(BrokenAnswer(f"it does not answer in HTTP ({error})"))
        # All but the body; of a body in chunks, their sizes are less than what is in them.
        if self._received - self._packed > LARGEST_HEAD + self._packed:
            self._fail(AnswerTooLarge(f"it sends headers without end, over {LARGEST_HEAD} bytes"))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._answer is None:
            return
        self.closed_unheard = not self._received
        if self._lasts_until_closed and error is None:
            self._finish()
        self._fail(error or ConnectionResetError("the server closed it"))

    # What the parser calls

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.done():
            self.reusable = False  # a second answer, which nobody asked for
            return
        # What an answer in between (1xx) said of itself is not said of the one that follows.
        self._begin_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:  # a trailer, which says nothing about what has come
            return
        match name.lower():
            case b"content-length":
                self._has_length = True
                self._length = value
            case b"transfer-encoding":
                self._has_length = True
            case b"content-encoding":
                coding = value.decode("latin-1")
                self._coding = f"{self._coding}, {coding}" if self._coding else coding
            case b"retry-after":
                self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._lasts_until_closed = not self._has_length
        if self._parser.get_status_code() < FINAL:
            return
        if self._length.isdigit() and int(self._length[:20]) > self._largest:
            self._fail(self._too_large())
        elif self._coding:
            try:
                self._unpacker = unpacker(self._coding, gzip=self._gzip, largest=self._largest)
            except Broken as error:
                self._fail(BrokenAnswer(str(error)))

    def on_body(self, part: bytes) -> None:
        if self._answer is None or self._answer.done():
            return
        self._packed += len(part)
        if self._unpacker is not None:
            try:
                part = self._unpacker.feed(part)
            except TooMuch:
                self._fail(self._too_large())
                return
            except Broken as error:
                self._fail(BrokenAnswer(str(error)))
                return
        self._held += len(part)
        self._room.left -= len(part)
        if self._held > self._largest:
            self._fail(self._too_large())
        elif self._room.left < 0:
            self._fail(BrokenAnswer("its answers under way are too large together"))
        else:
            self._content.append(part)

    def on_message_complete(self) -> None:
        self._lasts_until_closed = False
        if self._parser.get_status_code() >= FINAL:
            self._finish()

    def _finish(self) -> None:
        if self._answer is None or self._answer.done():
            return
        if self._unpacker is not None:
            try:
                self._unpacker.finish()
            except Broken as error:
                self._fail(BrokenAnswer(str(error)))
                return
        content = b"".join(self._content)
        self.reusable = self._parser.should_keep_alive()
        self._answer.set_result(Answer(self._parser.get_status_code(), content, self._retry_after))

    def _let_go(self) -> None:
        self._content = []
        self._room.left += self._held
        self._held = 0

    def _too_large(self) -> AnswerTooLarge:
        return AnswerTooLarge(f"its answer has more than {self._largest:,} bytes")

    def _fail(self, error: Exception) -> None:
        self.reusable = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
            self._let_go()
            self.drop()  # what else it sends is not even read
