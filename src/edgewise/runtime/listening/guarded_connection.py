"""One connection: its place, its time, and the protocols that it passes through."""

from __future__ import annotations

import asyncio
import math
import ssl
from asyncio import sslproto
from collections.abc import Callable
from typing import Protocol, cast

from edgewise.runtime.listening.doorstep import READ_BYTES, Doorstep
from edgewise.runtime.listening.handshakes import Handshakes
from edgewise.runtime.listening.request_guard import MOST_UNCOUNTED, RequestGuard, RequestLimits

# A ClientHello has less than 2 KiB; a client certificate some more.
MOST_HANDSHAKE_BYTES = 32 * 1024
SHUTDOWN_SECONDS = 2.0
# How a handshake begins: a type, two bytes of version, two of length.
HANDSHAKE = 0x16
RECORD_HEADER = 5
LONGEST_RECORD = 16 * 1024


class Keeper(Protocol):
    """Whoever gave the connection its place."""

    def now(self) -> float: ...

    def waits(self, connection: Connection) -> None: ...

    def settles(self, connection: Connection) -> None: ...

    def holds(self, connection: Connection, number: int) -> None:
        """So many bytes of a body that is not complete."""

    def leaves_unread(self, connection: Connection, number: int) -> None:
        """So many bytes of an answer that has to wait until its caller reads on."""

    def gone(self, connection: Connection) -> None: ...


class Connection:
    """One connection from when it is accepted until it is gone."""

    def __init__(self, keeper: Keeper, address: str, trusted: bool, deadline: float) -> None:
        self.address = address
        self.trusted = trusted
        self.deadline = deadline
        self._unread = 0  # bytes of an answer that its caller has not read
        self._read_by = math.inf  # by then a caller for whom an answer waits must have read on
        self.guard: RequestGuard | None = None
        self.transport: asyncio.Transport | None = None  # below TLS
        self.keeper = keeper
        self._waiting = self._shaking = True
        self._dropped = False

    @property
    def shaking(self) -> bool:
        """TLS is being agreed on."""
        return self._shaking

    def waits(self, seconds: float) -> None:
        if not self._waiting or self._shaking:
            self.deadline = self.keeper.now() + seconds
        self._waiting, self._shaking = True, False
        self.keeper.waits(self)

    def receives(self, seconds: float, held: int) -> None:
        if self._waiting or self.deadline == math.inf:
            self.deadline = self.keeper.now() + seconds
        self._settle()
        self.keeper.holds(self, held)

    def serves(self) -> None:
        self.deadline = math.inf
        self._settle()
        self.keeper.holds(self, 0)

    def ends(self, seconds: float) -> None:
        self.deadline = self.keeper.now() + seconds

    def leaves_unread(self, seconds: float, number: int) -> None:
        self._unread = number
        self._read_by = self.keeper.now() + seconds if number else math.inf
        self.keeper.leaves_unread(self, number)

    def look_whether_read(self, seconds: float) -> None:
        """Drop it if its caller does not read on; one that is closed waits for that, too."""
        closing = self.transport is not None and self.transport.is_closing()
        if self._read_by == math.inf and not closing:
            return
        unread = self.guard.unread() if self.guard is not None else 0
        if unread < self._unread:
            self.leaves_unread(seconds, unread)
        elif self._read_by == math.inf:
            self._unread, self._read_by = unread, self.keeper.now() + seconds
        elif self._read_by <= self.keeper.now():
            self.drop()

    def _settle(self) -> None:
        self._waiting = False
        self.keeper.settles(self)

    def overdue(self) -> None:
        if self.guard is not None and not self._shaking:
            self.guard.overdue()
        else:
            self.drop()

    def made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=MOST_UNCOUNTED)
        if self._dropped:
            self.transport.abort()

    def drop(self) -> None:
        self._dropped = True
        if self.transport is not None:
            self.transport.abort()


class HelloGate:
    """Waits for the first record of a handshake: until then TLS costs neither memory nor work."""

    def __init__(
        self,
        connection: Connection,
        guard: Callable[[], RequestGuard],
        context: ssl.SSLContext,
        handshakes: Handshakes,
        seconds: float,
    ) -> None:
        self._connection = connection
        self._guard = guard
        self._context = context
        self._handshakes = handshakes
        self._seconds = seconds
        self._received = bytearray()
        self._asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.made(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._handshakes.forget(self._connection.address, self._shake_hands)
        self._connection.keeper.gone(self._connection)

    def received(self, data: bytes) -> None:
        self._received += data
        if self._asked:
            if len(self._received) > MOST_HANDSHAKE_BYTES:
                self._connection.drop()
            return
        length = int.from_bytes(self._received[3:5], "big")
        if self._received[0] != HANDSHAKE or length > LONGEST_RECORD:
            self._connection.drop()
        elif len(self._received) >= RECORD_HEADER + length > RECORD_HEADER:
            self._asked = True
            self._handshakes.ask(self._connection.address, self._shake_hands)

    def _shake_hands(self) -> None:
        door = self._connection.transport
        if not isinstance(door, Doorstep) or door.is_closing():
            return
        self._connection.guard = self._guard()
        door.leave_for(
            TlsConnection(
                self._connection,
                self._connection.guard,
                self._context,
                self._seconds,
                bytes(self._received),
            )
        )


class TlsConnection(sslproto.SSLProtocol):
    """asyncio's TLS, which keeps 256 KiB for each connection, with less."""

    max_size = READ_BYTES

    def __init__(
        self,
        connection: Connection,
        guard: RequestGuard,
        context: ssl.SSLContext,
        seconds: float,
        received: bytes,
    ) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            guard,
            context,
            waiter=None,  # type: ignore[arg-type]  # nobody waits
            server_side=True,
            ssl_handshake_timeout=seconds,  # type: ignore[arg-type]  # may be a float
            ssl_shutdown_timeout=SHUTDOWN_SECONDS,
        )
        self._connection = connection
        self._handshake_bytes = 0
        self._received = received

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.made(transport)
        super().connection_made(transport)
        view, self._received = memoryview(self._received), b""
        while view and not transport.is_closing():
            buffer = self.get_buffer(len(view))
            number = min(len(view), len(buffer))
            buffer[:number] = view[:number]
            self.buffer_updated(number)
            view = view[number:]

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._connection.keeper.gone(self._connection)

    def buffer_updated(self, nbytes: int) -> None:
        if self._connection.shaking:
            self._handshake_bytes += nbytes
            if self._handshake_bytes > MOST_HANDSHAKE_BYTES:
                self._connection.drop()
                return
        super().buffer_updated(nbytes)


class PlainConnection(RequestGuard):
    """The guard, where there is no TLS below it."""

    def __init__(
        self,
        connection: Connection,
        framework: Callable[[], asyncio.Protocol],
        limits: RequestLimits,
    ) -> None:
        super().__init__(framework, limits, connection)
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.made(transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        try:
            super().connection_lost(exc)
        finally:
            self._connection.keeper.gone(self._connection)
