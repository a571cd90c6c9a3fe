"""The sample's client as a program that runs beside the measurement, with a film for each target.

It is a program of its own because the package does not depend on a WebRTC library, and so that
its work is not on the clock's own event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from edgewise.bench.sessions.webrtc_sample import SAMPLE
from edgewise.errors import ReadableError

IMPORT_SECONDS = 120.0


class FilmFailed(ReadableError):
    """A client did not get its boxes."""


class Filming(msgspec.Struct, frozen=True):
    seconds: float
    rate: float
    size: str = "320x180"
    deadline: float = 60.0

    @property
    def arguments(self) -> list[str]:
        return [
            f"--seconds={self.seconds}",
            f"--rate={self.rate}",
            f"--size={self.size}",
            f"--deadline={self.deadline}",
        ]


class Line(msgspec.Struct):
    """One line of the client's; what else is in it does not matter here."""

    event: str
    client: str = ""
    milliseconds: float = 0.0
    report: dict[str, Any] | None = None
    message: str = ""


class Film:
    """One client: when its channel was open, when its first box came, and how it ended."""

    def __init__(self) -> None:
        self.connected_at: float | None = None
        self.boxes_at: float | None = None
        self.frame_to_box_ms: list[float] = []
        self._first_box = asyncio.Event()
        self._report: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def happened(self, line: Line) -> None:
        now = time.perf_counter()
        match line.event:
            case "connected":
                self.connected_at = now
            case "boxes":
                self.boxes_at = now
                self._first_box.set()
            case "box":
                self.frame_to_box_ms.append(line.milliseconds)
            case "report" if not self._report.done():
                self._report.set_result(line.report or {})

    def fail(self, why: str) -> None:
        if not self._report.done():
            self._report.set_exception(FilmFailed(why))

    @property
    def over(self) -> bool:
        return self._report.done()

    async def first_box(self) -> float:
        """When it came; raises FilmFailed if the film ends without one."""
        box = asyncio.create_task(self._first_box.wait())
        try:
            either: set[asyncio.Future[Any]] = {box, self._report}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            box.cancel()
        if self.boxes_at is None:
            await self.end()
            raise FilmFailed("it ended well, but did not tell when boxes came")
        return self.boxes_at

    async def end(self) -> None:
        """Until the film is over; raises FilmFailed if no box came."""
        report = await self._report
        if not report.get("ok"):
            raise FilmFailed(report.get("message") or "it does not say why")


class Films:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._films: dict[str, Film] = {}

    def begin(self, target: dict[str, Any]) -> Film:
        """`target` as the sample has it: url, client, iceServers, token."""
        film = self._films[target["client"]] = Film()
        if self._process.stdin is None or self._process.returncode is not None:
            film.fail("the sample's client has ended; its errors are above")
        else:
            self._process.stdin.write(msgspec.json.encode(target) + b"\n")
        return film

    def stop(self, client: str) -> None:
        """End its film in the middle; nothing more is told of it."""
        if self._films.pop(client, None) is None:
            return
        if self._process.stdin is not None and self._process.returncode is None:
            self._process.stdin.write(msgspec.json.encode({"stop": client}) + b"\n")

    async def until_following(self) -> None:
        try:
            async with asyncio.timeout(IMPORT_SECONDS):
                line = await self._next()
        except TimeoutError:
            said = f"the sample's client did not start within {IMPORT_SECONDS:.0f} s"
            raise FilmFailed(said) from None
        if line is None or line.event != "following":
            raise FilmFailed("the sample's client did not start; its errors are above")

    async def read(self) -> None:
        while (line := await self._next()) is not None:
            if (film := self._films.get(line.client)) is not None:
                film.happened(line)
        for film in self._films.values():
            film.fail("the sample's client ended before it was done; its errors are above")

    async def _next(self) -> Line | None:
        if self._process.stdout is None:
            return None
        text = await self._process.stdout.readline()
        return msgspec.json.decode(text, type=Line) if text else None


@contextlib.asynccontextmanager
async def films(filming: Filming) -> AsyncIterator[Films]:
    """The client, started and waiting for targets, for as long as the block runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "webrtc_detector.client", "--follow", *filming.arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SAMPLE)},
        limit=1 << 20,
    )
    reading = None
    try:
        running = Films(process)
        await running.until_following()
        reading = asyncio.create_task(running.read())
        yield running
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        if reading is not None:
            await reading
