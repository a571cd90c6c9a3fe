"""The two users in a place, as processes there: one with new connections, one that keeps them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from edgewise.bench.placement.figures import Answers
from edgewise.errors import ReadableError
from edgewise.local.clusters import LocalCluster
from edgewise.local.places import command_in, environment_in

RATE = 50.0
# A request may take long; one that is on its way is waited for.
_LAST_ANSWER = 20.0
_PROBER = Path(__file__).with_name("prober.py")


class ProberFailed(ReadableError):
    """A prober ended by itself."""


class Prober:
    """Asks from `start` to `stop`."""

    def __init__(self, cluster: LocalCluster, place: str, address: str, port: int, kind: str):
        asked = [address, str(port), f"{RATE:g}", kind]
        command = [sys.executable, "-I", "-S", str(_PROBER), *asked]
        self._command = command_in(cluster, place, command)
        self._environment = environment_in(cluster, place)
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )

    async def stop(self) -> Answers:
        """Its input ends, and so does it, after the answers that are on their way."""
        process, self._process = self._process, None
        if process is None:
            raise ProberFailed("the prober was never started")
        try:
            async with asyncio.timeout(_LAST_ANSWER):
                told, said = await process.communicate(input=b"")
        except TimeoutError:
            process.kill()
            await process.wait()
            raise ProberFailed("a prober does not end") from None
        if process.returncode != 0 or not told:
            raise ProberFailed(f"a prober ended early: {said.decode(errors='replace')[-300:]}")
        return msgspec.json.decode(told, type=Answers)

    async def kill(self) -> None:
        """Waited for: what is left of a process when the event loop closes complains of it."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()


@contextlib.asynccontextmanager
async def probing(
    cluster: LocalCluster, place: str, address: str, port: int
) -> AsyncIterator[tuple[Prober, Prober]]:
    """New connections, and kept ones. Whoever wants their answers stops them."""
    probers = (
        Prober(cluster, place, address, port, "new"),
        Prober(cluster, place, address, port, "kept"),
    )
    try:
        for prober in probers:
            await prober.start()
        yield probers
    finally:
        for prober in probers:
            await prober.kill()
