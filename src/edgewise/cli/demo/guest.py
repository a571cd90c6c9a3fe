"""A client of the demo: it has a seat, listens to its server, and can crash."""

import asyncio
import contextlib
import time

import aiohttp

from edgewise.cli.demo.objects import SESSION
from edgewise.cli.demo.stage import Row
from edgewise.client import Edgewise, EdgewiseError, Seat

SILENCE = 1.0  # seconds after which a stream is taken for dead
RETRY = 0.05


class Guest:
    def __init__(self, name: str, location: str | None) -> None:
        """Without a location, it measures and has one chosen for it."""
        self.name = name
        self._wanted = location
        self.took: float | None = None
        self._stack = contextlib.AsyncExitStack()
        self._seat: Seat | None = None
        self._stream: Stream | None = None
        self._edgewise: Edgewise | None = None

    @property
    def seat(self) -> Seat:
        if self._seat is None:
            raise RuntimeError(f"{self.name} has no seat")
        return self._seat

    @property
    def stream(self) -> "Stream":
        if self._stream is None:
            raise RuntimeError(f"{self.name} has no stream")
        return self._stream

    @property
    def url(self) -> str:
        return self.seat.endpoint()

    @property
    def silence(self) -> float:
        return self.stream.longest_silence

    def start_watch(self) -> None:
        self.stream.longest_silence = 0.0

    async def join(self, edgewise: Edgewise) -> None:
        began = time.monotonic()
        self.took = None
        self._edgewise = edgewise
        # It never says goodbye by itself: whoever crashes cannot.
        seat = edgewise.join(SESSION, self.name, location=self._wanted, leave=False)
        self._seat = await self._stack.enter_async_context(seat)
        self.took = time.monotonic() - began
        self._stream = Stream(seat)
        listening = asyncio.create_task(self._stream.listen())
        self._stack.push_async_callback(_ended, listening)

    async def crash(self) -> None:
        await self._stack.aclose()

    async def leave(self) -> None:
        await self.crash()
        if self._edgewise is not None:
            await self._edgewise.leave(SESSION, self.name)

    def row(self) -> Row:
        seat = self._seat
        location = seat.location if seat is not None else None
        return Row(self.name, location or "", seat.state if seat else "joining", self.took)


class Stream:
    """Follows the seat: whenever the stream ends, it is opened again where the seat is then."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._lines = 0
        self._pod = ""
        self._heard = time.monotonic()
        self.longest_silence = 0.0

    async def listen(self) -> None:
        """Never returns."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=SILENCE, sock_read=SILENCE)
        async with aiohttp.ClientSession(timeout=timeout) as http:
            while True:
                # An EdgewiseError: while the client is being moved, there is no address.
                with contextlib.suppress(aiohttp.ClientError, OSError, EdgewiseError):
                    await self._hear(http, self._seat.endpoint())
                await asyncio.sleep(RETRY)

    async def _hear(self, http: aiohttp.ClientSession, url: str) -> None:
        async with http.get(f"{url.rstrip('/')}/stream") as answer:
            if answer.status != 200:
                return
            async for line in answer.content:
                now = time.monotonic()
                self.longest_silence = max(self.longest_silence, now - self._heard)
                self._heard = now
                self._lines += 1
                self._pod = line.decode().strip()
                if self._seat.endpoint() != url:
                    return

    async def until_heard(self) -> str:
        """The pod that speaks next, from now on."""
        seen = self._lines
        while self._lines == seen:  # noqa: ASYNC110 - a line every 50 ms is no event
            await asyncio.sleep(0.01)
        return self._pod


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})
