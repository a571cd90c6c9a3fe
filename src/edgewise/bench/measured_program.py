"""A Python program as a process of its own, so that what it uses is its own."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator

from edgewise.bench.process_cost import cpu_seconds, rss_mb
from edgewise.errors import ReadableError


class ProgramEnded(ReadableError):
    """The measured program ended before it was measured."""


class MeasuredProgram:
    """Talks with the program by lines, and asks the kernel what it uses."""

    def __init__(self, process: asyncio.subprocess.Process, started: float) -> None:
        self._process = process
        self._started = started
        self._cpu = 0.0
        self._since = 0.0

    async def line(self, within: float = 120.0) -> str:
        """The next line that the program says."""
        if self._process.stdout is None:
            raise ProgramEnded("the program has no output")
        async with asyncio.timeout(within):
            text = await self._process.stdout.readline()
        if not text:
            raise ProgramEnded("the measured program ended early; its errors are above")
        return text.decode().rstrip()

    def go_on(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(b"\n")

    @property
    def age(self) -> float:
        """Seconds since it was started, imports and all."""
        return time.perf_counter() - self._started

    def begin(self) -> None:
        self._cpu, self._since = cpu_seconds(self._process.pid), time.perf_counter()

    def cpu_percent(self) -> float:
        """Of one core, since `begin`."""
        used = cpu_seconds(self._process.pid) - self._cpu
        return 100 * used / (time.perf_counter() - self._since)

    def rss_mb(self) -> float:
        return rss_mb(self._process.pid)


@contextlib.asynccontextmanager
async def measured(module: str, *arguments: str) -> AsyncIterator[MeasuredProgram]:
    """Run `python -m module`, and end it afterwards."""
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    try:
        yield MeasuredProgram(process, started)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
