"""Clients that are started one by one, and tell at once what happens to them.

For whoever measures: the program is there before the first client is, so that its start is no
part of what a client waits for.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial

import msgspec

from webrtc_detector.measure import Filming, Report, Target, measure


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line that ends a client in the middle of its film."""

    stop: str


_target = msgspec.json.Decoder(Target)
_stop = msgspec.json.Decoder(Stop)


class Event(msgspec.Struct, omit_defaults=True):
    """One line. `event` is one of measure's, or "following", "report" or "unreadable"."""

    event: str
    client: str = ""
    milliseconds: float = 0.0
    report: Report | None = None
    message: str = ""


def write(event: Event) -> None:
    sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
    sys.stdout.flush()


async def lines_of_input() -> AsyncIterator[bytes]:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        yield line


async def follow(
    filming: Filming,
    lines: AsyncIterator[bytes] | None = None,
    tell: Callable[[Event], None] = write,
) -> None:
    """Until the input ends and the last client is done."""
    running: dict[str, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as clients:
        tell(Event("following"))
        async for line in lines or lines_of_input():
            if (client := _stopped(line)) is not None:
                if (task := running.pop(client, None)) is not None:
                    task.cancel()
                continue
            try:
                target = _target.decode(line)
            except msgspec.MsgspecError as error:
                tell(Event("unreadable", message=f"this line is no target: {error}"))
            else:
                task = clients.create_task(_one(target, filming, tell))
                running[target.client] = task
                task.add_done_callback(partial(_forget, running, target.client))


def _stopped(line: bytes) -> str | None:
    try:
        return _stop.decode(line).stop
    except msgspec.MsgspecError:
        return None


def _forget(running: dict[str, asyncio.Task[None]], client: str, task: asyncio.Task[None]) -> None:
    if running.get(client) is task:
        del running[client]


async def _one(target: Target, filming: Filming, tell: Callable[[Event], None]) -> None:
    def happened(event: str, milliseconds: float) -> None:
        tell(Event(event, target.client, milliseconds))

    report = await measure(target, filming, happened)
    tell(Event("report", target.client, report=report))
