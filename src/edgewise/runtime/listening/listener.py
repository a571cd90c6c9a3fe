"""One way to listen for HTTP, with bounds that hold before anybody has shown a token.

`Listener` accepts connections, bounds their number and the time of their TLS handshakes, and
hands them over to the protocol of a web framework, behind a guard that bounds their requests.
`web_app` does so for aiohttp, and the server for uvicorn.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
import ssl
from collections.abc import Callable

import msgspec

from edgewise.errors import ReadableError
from edgewise.runtime.listening.callers import among, caller
from edgewise.runtime.listening.descriptors import raise_descriptor_limit
from edgewise.runtime.listening.doorstep import Beginning, Doorstep
from edgewise.runtime.listening.guarded_connection import Connection, HelloGate, PlainConnection
from edgewise.runtime.listening.handshakes import Handshakes
from edgewise.runtime.listening.places import Places
from edgewise.runtime.listening.request_guard import RequestGuard, RequestLimits

# Where the queue is full, the system drops newcomers, who come again after a second.
BACKLOG = 512
# Per turn of the loop, so that those who are here get their turn, too. A handshake takes some
# turns, and in these there must not come so many that it is pushed out.
ACCEPTED_AT_ONCE = 8
# While there are no descriptors, or no memory.
REST_SECONDS = 1.0
SWEEP_SECONDS = 0.5
SECONDS_BETWEEN_LINES = 10.0

_log = logging.getLogger(__name__)


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many connections one listener has."""

    connections: int = 2048
    per_address: int = 512
    waiting: int = 256  # for the end of a handshake or of headers
    body_bytes: int = 16 << 20  # of requests that are not complete
    unread_bytes: int = 16 << 20  # of answers that callers do not read
    proxies: tuple[str, ...] = ()  # `per_address` does not hold for them


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    connections: ConnectionLimits = ConnectionLimits()
    request: RequestLimits = RequestLimits()


class Listener:
    """Accepts on `bound` from `start` until `close`; connections end with their protocols."""

    def __init__(
        self,
        bound: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        limits: Limits | None = None,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._socket = bound
        self.port = int(bound.getsockname()[1])
        self._protocol = protocol
        self._limits = limits or Limits()
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._trusted = among(self._limits.connections.proxies)
        self._places: Places[Connection] = Places(
            self._room(), self._limits.connections.per_address, self._limits.connections.waiting
        )
        self._handshakes = Handshakes(self._loop)
        self._connections: set[Connection] = set()
        self._bodies = Kept(self._limits.connections.body_bytes)
        self._unread = Kept(self._limits.connections.unread_bytes)
        self._accepting = False
        self._closed = False
        self._lines = Lines(SECONDS_BETWEEN_LINES)

    def __len__(self) -> int:
        return len(self._connections)

    def now(self) -> float:
        return self._loop.time()

    def _room(self) -> int:
        """For how many there are descriptors; a third is left for what else this process does."""
        wanted = self._limits.connections.connections
        room = min(wanted, raise_descriptor_limit() * 2 // 3)
        if room < wanted:
            _log.warning(
                "there are descriptors for %d connections, not for %d: raise the limit (ulimit -n)",
                room,
                wanted,
            )
        return room

    def start(self) -> None:
        self._socket.setblocking(False)
        self._accept_again()
        self._loop.call_later(SWEEP_SECONDS, self._sweep)

    def close(self) -> None:
        """Accept nobody, and drop those who have not asked for anything."""
        if self._closed:
            return
        self._closed = True
        if self._accepting:
            self._loop.remove_reader(self._socket.fileno())
            self._accepting = False
        self._socket.close()
        while (waiting := self._places.longest_waiting()) is not None:
            self._places.leave(waiting)
            waiting.drop()

    async def wait_closed(self) -> None:
        """There is nothing to wait for: connections are their protocols' to end."""

    # What connections tell.

    def waits(self, connection: Connection) -> None:
        if (goes := self._places.waits(connection)) is not None:
            self._make_room(goes)

    def settles(self, connection: Connection) -> None:
        self._places.settles(connection)

    def holds(self, connection: Connection, number: int) -> None:
        self._keep(self._bodies, connection, number)

    def leaves_unread(self, connection: Connection, number: int) -> None:
        self._keep(self._unread, connection, number)

    def _keep(self, kept: Kept, connection: Connection, number: int) -> None:
        if (longest := kept.note(connection, number)) is not None:
            kept.note(longest, 0)
            self._make_room(longest)

    # Accepting.

    def _accept_again(self) -> None:
        if not self._closed and not self._accepting:
            self._accepting = True
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            accepted.setblocking(False)
            self._welcome(accepted, str(peer[0]))

    def _rest(self, error: OSError) -> None:
        """Whoever waits in the queue keeps the listener readable: asking again at once would
        be all that this process does."""
        self._loop.remove_reader(self._socket.fileno())
        self._accepting = False
        self._loop.call_later(REST_SECONDS, self._accept_again)
        self._lines.say(self.now(), "cannot accept connections: %s", error.strerror or error)
        if error.errno in (errno.EMFILE, errno.ENFILE):
            longest = self._places.longest_waiting()
            if longest is not None:
                self._places.leave(longest)
                longest.drop()

    def _welcome(self, accepted: socket.socket, host: str) -> None:
        request = self._limits.request
        seconds = request.handshake_seconds if self._tls else request.header_seconds
        connection = Connection(self, caller(host), self._trusted(host), self.now() + seconds)
        entry = self._places.enter(connection)
        if entry.makes_room is not None:
            self._make_room(entry.makes_room)
        if not entry.admitted:
            accepted.close()
            self._lines.say(
                self.now(), "%d connections are open: another one was refused", len(self._places)
            )
            return
        self._connections.add(connection)
        try:
            Doorstep(self._loop, accepted, self._chain(connection))
        except OSError as error:
            accepted.close()
            self.gone(connection)
            self._lines.say(self.now(), "a connection could not be taken: %s", error)

    def _chain(self, connection: Connection) -> Beginning:
        limits = self._limits.request
        if self._tls is None:
            connection.guard = PlainConnection(connection, self._protocol, limits)
            return connection.guard

        def guard() -> RequestGuard:
            return RequestGuard(self._protocol, limits, connection)

        return HelloGate(connection, guard, self._tls, self._handshakes, limits.handshake_seconds)

    # Ending.

    def _make_room(self, connection: Connection) -> None:
        self._lines.say(
            self.now(),
            "too much is waited for: the connection that has waited longest, from %s, is dropped",
            connection.address,
        )
        connection.drop()

    def gone(self, connection: Connection) -> None:
        self._connections.discard(connection)
        connection.guard = connection.transport = None
        self._bodies.note(connection, 0)
        self._unread.note(connection, 0)
        self._places.leave(connection)

    def _sweep(self) -> None:
        now = self.now()
        for connection in [each for each in self._connections if each.deadline <= now]:
            connection.deadline = now + self._limits.request.linger_seconds
            connection.overdue()
        for connection in list(self._connections):
            connection.look_whether_read(self._limits.request.unread_seconds)
        if self._connections or not self._closed:
            self._loop.call_later(SWEEP_SECONDS, self._sweep)


class Kept:
    """Bytes that connections have us keep: when all together are too many, one has to go."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._of: dict[Connection, int] = {}  # in the order in which they began to

    def note(self, connection: Connection, number: int) -> Connection | None:
        """So many are of this connection now. Answers who has to make room."""
        self._total += number - self._of.get(connection, 0)
        if number:
            self._of[connection] = number
        else:
            self._of.pop(connection, None)
        return next(iter(self._of)) if self._total > self._most else None


class Lines:
    """Log lines that callers can cause: one for each text in a while, with their number."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._said: dict[str, float] = {}
        self._kept_back: dict[str, int] = {}

    def say(self, now: float, text: str, *values: object) -> None:
        if now - self._said.get(text, -math.inf) < self._seconds:
            self._kept_back[text] = self._kept_back.get(text, 0) + 1
            return
        self._said[text] = now
        if more := self._kept_back.pop(text, 0):
            _log.warning(f"{text} (and %d times since the last line)", *values, more)
        else:
            _log.warning(text, *values)


class PortInUse(ReadableError):
    """Another program listens where this one wants to."""


def bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # Connections inherit it. asyncio sets it only on sockets that name their protocol, and
    # without it the end of an answer waits 40 ms for the client to confirm its beginning.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    bound.setblocking(False)
    return bound
