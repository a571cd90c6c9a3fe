"""One sample: a connection of its own, timed, and the pod that answered it.

A Service balances connections, so only new ones meet all pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from urllib.parse import urlsplit

import msgspec

from edgewise.client.errors import EdgewiseError, Unreachable
from edgewise.client.placement.pod_header import HEADER

SECONDS = 5.0
MOST_HEADERS = 32 * 1024


class Sample(msgspec.Struct, frozen=True):
    rtt_ms: float
    pod: str  # empty: the answer did not say


async def sample(url: str, *, seconds: float = SECONDS, through_proxy: bool = False) -> Sample:
    """Open a connection, ask, and close it.

    The round trip is that of the TCP handshake. Behind a proxy that ends connections itself, that
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
            began = time.perf_counter()
            reader, writer = await asyncio.open_connection(parts.hostname, port, limit=MOST_HEADERS)
            connected = time.perf_counter()
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
    rtt = (answered - asked) if through_proxy else (connected - began)
    return Sample(rtt * 1000, _pod(head))


def _pod(head: bytes) -> str:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == HEADER.encode():
            return value.strip().decode("ascii", "replace")
    return ""
