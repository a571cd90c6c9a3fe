"""Bounds on HTTP requests, before the program that answers them sees a byte.

Web frameworks bound some of it, each in its own way, and none of them all of it: the headers in
all, one long header, the URL, trailers, the time that a request may take to arrive. The guard
stands between a connection and the framework's protocol and follows the same parser as both
frameworks that we use, so that it knows where headers end.
"""

from __future__ import annotations

import asyncio
import http
import json
from collections.abc import Callable
from typing import Protocol, cast

import httptools
import msgspec

from edgewise.errors import ReadableError
from edgewise.runtime.listening.doorstep import READ_BYTES, Doorstep

# What a caller may go on sending while it has not yet read that it was refused.
MOST_UNREAD = 256 * 1024
# Of an answer that its caller does not read: what is more is counted, and has its time.
MOST_UNCOUNTED = 16 * 1024


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may be, and how long it may take to arrive."""

    header_bytes: int = 32 * 1024  # in all, with the URL, the method and trailers
    header_fields: int = 100
    at_once: int = 8  # requests that one read brings: each costs more than the bytes it is said in
    handshake_seconds: float = 5.0
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    unread_seconds: float = 30.0  # for a caller to read on, where an answer waits for that
    linger_seconds: float = 1.0  # for a caller to read why it was refused


class Watcher(Protocol):
    """Whoever keeps the time of a connection, and its place."""

    def waits(self, seconds: float) -> None:
        """The headers of a request are due within so many seconds."""

    def receives(self, seconds: float, held: int) -> None:
        """The rest of a body is due; `held` bytes of it are here."""

    def serves(self) -> None:
        """A request is complete, and is the program's now."""

    def leaves_unread(self, seconds: float, number: int) -> None:
        """So many bytes wait for the caller to read on, due within so many seconds."""

    def ends(self, seconds: float) -> None:
        """The connection is refused, and to be closed in so many seconds."""


class RequestTooLarge(ReadableError):
    def __init__(self, status: http.HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class RequestGuard(asyncio.BufferedProtocol):
    """Passes on to the framework's protocol what is within the limits.

    That protocol is made when the headers of a first request are complete: a caller who only
    begins costs neither it nor its task, and where there is no TLS no transport either.
    """

    # One for all connections: what a read brings is copied out of it before the next one.
    _buffer = memoryview(bytearray(READ_BYTES))

    def __init__(
        self, framework: Callable[[], asyncio.Protocol], limits: RequestLimits, watcher: Watcher
    ) -> None:
        self._framework = framework
        self._inner: asyncio.Protocol | None = None
        # Kept for inner. In one piece: an object for each of many small reads costs twenty times
        # the bytes that it holds.
        self._begun_with = bytearray()
        self._limits = limits
        self._watcher = watcher
        self._transport: asyncio.Transport | None = None
        self._parser = self._new_parser()
        self._requests = 0  # whose headers are complete
        self._refused = False
        self._discarded = 0
        # Of the message that arrives now.
        self._in_headers = self._in_body = False
        self._url_bytes = self._header_bytes = self._fields = 0
        self._unfinished = 0  # bytes of which the parser has not told anything yet
        self._body_bytes = 0
        # What the last read brought: something that the parser told of, the end of a request,
        # and how many began.
        self._moved = self._completed = False
        self._begun = 0

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        comes_from_the_door = isinstance(self._transport, Doorstep)
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=MOST_UNCOUNTED)
        if comes_from_the_door:
            self._begin()
        else:
            self._watcher.waits(self._limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._begun_with.clear()
        if self._inner is not None:
            self._inner.connection_lost(exc)
        self._transport = None
        # It refers to us: without a circle, all of this is freed now and not some time later.
        del self._parser

    def pause_writing(self) -> None:
        self._watcher.leaves_unread(self._limits.unread_seconds, self.unread())
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._watcher.leaves_unread(self._limits.unread_seconds, 0)
        if self._inner is not None:
            self._inner.resume_writing()

    def unread(self) -> int:
        """Bytes of answers that could not be sent yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._inner is not None else None

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received(bytes(self._buffer[:nbytes]))

    def received(self, data: bytes) -> None:
        if self._refused:
            self._discard(len(data))
        elif self._within_limits(data):
            self._pass_on(data)

    def _pass_on(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.data_received(data)
            return
        self._begun_with += data
        if not self._requests or self._transport is None:
            return
        if isinstance(self._transport, Doorstep):
            self._transport.leave_for(self)
        else:
            self._begin()

    def _begin(self) -> None:
        """The framework's part, with what has come so far."""
        if self._transport is None or self._transport.is_closing():
            return
        data = bytes(self._begun_with)
        self._begun_with.clear()
        self._inner = self._framework()
        self._inner.connection_made(self._transport)
        self._inner.data_received(data)

    def overdue(self) -> None:
        """The watcher's time is up."""
        if self._in_headers and self._requests == 0 and not self._refused:
            self._refuse(
                http.HTTPStatus.REQUEST_TIMEOUT,
                f"the headers must be complete after {self._limits.header_seconds:g} s",
            )
        else:
            self._abort()

    # What arrives.

    def _within_limits(self, data: bytes) -> bool:
        self._moved = self._completed = False
        self._begun = 0
        try:
            self._follow(data)
            self._unfinished = 0 if self._moved else self._unfinished + len(data)
            if self._header_bytes + self._unfinished > self._limits.header_bytes:
                raise self._too_large()
        except RequestTooLarge as error:
            self._refuse(error.status, str(error))
            return False
        except httptools.HttpParserError as error:
            self._refuse(http.HTTPStatus.BAD_REQUEST, f"this is no HTTP/1.1: {error}")
            return False
        if self._completed:
            self._watcher.serves()
        if self._in_body:
            self._watcher.receives(self._limits.body_seconds, self._body_bytes)
        elif self._in_headers or not self._moved:
            self._watcher.waits(self._limits.header_seconds)
        return True

    def _follow(self, data: bytes) -> None:
        while data:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                # To no other protocol do we go: what follows is the next request.
                self.on_message_complete()
                data = data[upgrade.args[0] :]
                self._parser = self._new_parser()
            except httptools.HttpParserCallbackError as error:
                if isinstance(error.__context__, RequestTooLarge):
                    raise error.__context__ from None
                raise

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # As inner does: what follows a last request is ignored.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def on_message_begin(self) -> None:
        self._in_headers, self._in_body = True, False
        self._url_bytes = self._header_bytes = self._fields = 0
        # Both frameworks stop reading while requests wait for their turn, but not within a read.
        self._begun += 1
        if self._begun > self._limits.at_once:
            raise RequestTooLarge(
                http.HTTPStatus.TOO_MANY_REQUESTS,
                f"more than {self._limits.at_once} requests came before one was answered",
            )

    def on_url(self, url: bytes) -> None:
        self._url_bytes += len(url)
        self._header_bytes += len(url)
        self._moved = True
        if self._url_bytes > self._limits.header_bytes:
            raise self._too_large()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        self._header_bytes += len(name) + len(value) + 4
        self._moved = True
        if (
            self._header_bytes > self._limits.header_bytes
            or self._fields > self._limits.header_fields
        ):
            raise self._too_large()

    def on_headers_complete(self) -> None:
        self._in_headers, self._in_body, self._moved = False, True, True
        self._body_bytes = 0
        self._requests += 1

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._moved = True

    def on_message_complete(self) -> None:
        self._in_headers = self._in_body = False
        self._header_bytes = self._url_bytes = 0
        self._moved = self._completed = True

    # What is too much.

    def _too_large(self) -> RequestTooLarge:
        most = self._limits.header_bytes
        if self._url_bytes > most:
            return RequestTooLarge(
                http.HTTPStatus.REQUEST_URI_TOO_LONG, f"the URL may have {most} bytes"
            )
        return RequestTooLarge(
            http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"the headers of a request may have {most} bytes and {self._limits.header_fields} "
            "fields in all",
        )

    def _refuse(self, status: http.HTTPStatus, detail: str) -> None:
        transport = self._transport
        self._refused = True
        if transport is None or transport.is_closing():
            return
        body = json.dumps({"title": status.phrase, "status": status.value, "detail": detail})
        transport.write(
            f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            "Content-Type: application/problem+json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
        )
        if self._requests:
            transport.close()  # inner may be about to answer
            return
        # Closing with bytes unread resets the connection, and the answer with it.
        if transport.can_write_eof():
            transport.write_eof()
        self._watcher.ends(self._limits.linger_seconds)

    def _discard(self, number: int) -> None:
        self._discarded += number
        if self._discarded > MOST_UNREAD:
            self._abort()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
