"""One sample: a connection of its own, timed, and the pod that answered it.

A Service balances connections, so only new ones meet all pods. Where the kernel tells how long the
handshake took, its word counts: a program that waits for a core would measure its own waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import sys
import time
from urllib.parse import urlsplit

import msgspec

from edgewise.client.errors import EdgewiseError, Unreachable
from edgewise.client.placement.pod_header import HEADER

SECONDS = 5.0
MOST_HEADERS = 32 * 1024
# Of Linux: where the smoothed round trip, in microseconds, is in what TCP_INFO tells.
_TCP_INFO_RTT = 68


class Sample(msgspec.Struct, frozen=True):
    rtt_ms: float
    pod: str  # empty: the answer did not say


async def sample(url: str, *, seconds: float = SECONDS, through_proxy: bool = False) -> Sample:
    """Open a connection, ask, and close it.

    The round trip is that of the TCP handshake, without the time that its name took to be found.
    Behind a proxy that ends connections itself, that
    is the way to the proxy: `through_proxy` takes the time from the request to the first byte.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise EdgewiseError(f"{url!r} cannot be measured: say http://HOST:PORT/PATH")
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if tls else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        async with asyncio.timeout(seconds):
            reader, writer, handshake = await _connected(parts.hostname, port)
            try:
                if tls is not None:
                    await writer.start_tls(tls, server_hostname=parts.hostname)
                asked = time.perf_counter()
                host = parts.netloc.rpartition("@")[2]
                writer.write(
                    f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
                )
                await writer.drain()
                first = await reader.readuntil(b"\r\n")
                answered = time.perf_counter()
                head = first + await reader.readuntil(b"\r\n\r\n")
            finally:
                writer.close()
                with contextlib.suppress(OSError, ssl.SSLError):
                    await writer.wait_closed()
    except (
        OSError,
        TimeoutError,
        asyncio.IncompleteReadError,
        asyncio.LimitOverrunError,
        ValueError,
    ) as error:
        raise Unreachable(f"{url} does not answer: {str(error) or type(error).__name__}") from error
    rtt = (answered - asked) if through_proxy else handshake
    return Sample(rtt * 1000, _pod(head))


async def _connected(
    host: str, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, float]:
    """A connection to the first address that takes one, and the seconds of its handshake."""
    loop = asyncio.get_running_loop()
    trouble = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            began = time.perf_counter()
            await loop.sock_connect(connection, address)
            took = time.perf_counter() - began
            reader, writer = await asyncio.open_connection(sock=connection, limit=MOST_HEADERS)
            return reader, writer, handshake_seconds(connection, took)
        except OSError as error:
            connection.close()
            trouble = error
        except BaseException:
            connection.close()
            raise
    raise trouble


def handshake_seconds(connection: socket.socket, took: float) -> float:
    """What the kernel measured; `took`, by our own clock, where it does not tell."""
    if sys.platform != "linux":
        return took
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
        (microseconds,) = struct.unpack_from("=I", info, _TCP_INFO_RTT)
    except (OSError, struct.error):
        return took
    # 0: the handshake was repeated, and nobody knows which of them was answered.
    return min(took, microseconds / 1e6) if microseconds else took


def _pod(head: bytes) -> str:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == HEADER.encode():
            return value.strip().decode("ascii", "replace")
    return ""
