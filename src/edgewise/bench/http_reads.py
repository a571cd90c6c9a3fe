"""Reads of an HTTP API, as many as it answers or as many as are asked for.

Plain sockets and requests that are written beforehand: on a machine with two cores the one
who asks must not be what is measured.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from urllib.parse import urlsplit

from edgewise.errors import ReadableError


class ReadFailed(ReadableError):
    """An answer that is no answer to a read."""


class Connection:
    """One keep-alive connection that asks the same question over and over."""

    def __init__(self, url: str, path: str, token: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
        ).encode()

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    def close(self) -> None:
        self._writer.close()

    async def read(self) -> int:
        """Ask once; answers the size of the body."""
        self._writer.write(self._request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise ReadFailed(head.partition(b"\r\n")[0].decode())
        at = head.lower().index(b"content-length:") + len(b"content-length:")
        size = int(head[at : head.index(b"\r\n", at)])
        await self._reader.readexactly(size)
        return size


async def flat_out(connections: list[Connection], seconds: float) -> tuple[int, float]:
    """How many reads, in how many seconds."""
    began = time.perf_counter()
    done = 0

    async def ask(connection: Connection) -> None:
        nonlocal done
        while time.perf_counter() - began < seconds:
            await connection.read()
            done += 1

    await asyncio.gather(*(ask(connection) for connection in connections))
    return done, time.perf_counter() - began


async def at_a_rate(connections: list[Connection], rate: float, seconds: float) -> list[float]:
    """How long each read took from the moment it was due, in seconds."""
    began = time.perf_counter()
    numbers = itertools.count()
    times: list[float] = []

    async def ask(connection: Connection) -> None:
        for number in numbers:
            due = began + number / rate
            if number >= rate * seconds:
                return
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            await connection.read()
            times.append(time.perf_counter() - due)

    await asyncio.gather(*(ask(connection) for connection in connections))
    return times
