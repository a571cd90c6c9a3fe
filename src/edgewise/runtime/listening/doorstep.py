"""A connection before it has said anything complete: a socket and a callback.

A transport of asyncio with what hangs on it costs several times what it costs to accept, and an
attacker makes thousands who never need one. So the first bytes are read here. What refuses them
writes to the socket itself; what wants them asks for a real transport in place of this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Protocol

READ_BYTES = 16 * 1024

Leaving = asyncio.Task[tuple[asyncio.Transport, asyncio.BaseProtocol]]


class Beginning(Protocol):
    """Whoever reads the first bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def received(self, data: bytes) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


class Doorstep(asyncio.Transport):
    """As much of a transport as a refusal needs."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, accepted: socket.socket, beginning: Beginning
    ) -> None:
        super().__init__()
        self._loop = loop
        self._socket = accepted
        self._beginning = beginning
        self._closed = self._left = self._given = False
        self._leaving: Leaving | None = None
        loop.add_reader(accepted.fileno(), self._readable)
        beginning.connection_made(self)

    def leave_for(self, protocol: asyncio.BaseProtocol) -> None:
        """From now on the connection is the protocol's, with a transport of its own."""
        if self._closed or self._left:
            return
        self._left = True
        self._loop.remove_reader(self._socket.fileno())

        def give() -> asyncio.BaseProtocol:
            self._given = True
            return protocol

        self._leaving = self._loop.create_task(
            self._loop.connect_accepted_socket(give, self._socket)
        )
        self._leaving.add_done_callback(self._handed_over)

    def _handed_over(self, leaving: Leaving) -> None:
        """Also where it was cancelled before it began, which the task itself cannot notice."""
        error: BaseException | None = None
        if leaving.cancelled():
            if self._given:
                return  # the new transport is there, and closed: it tells its protocol
        elif (error := leaving.exception()) is None:
            if self._closed:  # meanwhile
                leaving.result()[0].abort()
            return
        self._socket.close()
        self._beginning.connection_lost(error if isinstance(error, Exception) else None)

    def _readable(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if not data:
            self._end(None)
            return
        try:
            self._beginning.received(data)
        except Exception as error:
            self._end(error)  # as a transport does: what is broken must not hold a place
            raise

    def _end(self, error: Exception | None) -> None:
        if self._closed:
            return
        self._closed = True
        if self._left:
            return  # the new transport is told when it is there
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        # Not now: this may be the middle of what it does with its bytes.
        self._loop.call_soon(self._beginning.connection_lost, error)

    # What protocols ask of a transport.

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    def write(self, data: Any) -> None:
        """Refusals are short, and the first thing that is said: they fit."""
        with contextlib.suppress(OSError):
            self._socket.send(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is kept."""

    def get_write_buffer_size(self) -> int:
        return 0
