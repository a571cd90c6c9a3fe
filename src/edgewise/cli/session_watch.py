"""Watching sessions: a live table at a terminal, a line for each change elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import msgspec

from edgewise.cli.session_source import Shown
from edgewise.cli.session_text import (
    Row,
    clients_table,
    clock,
    happenings,
    sessions_table,
    shown_session,
)

if TYPE_CHECKING:
    from rich.text import Text

LIVE_SECONDS = 1.0  # ages and deadlines are drawn anew so often

Snapshots = AsyncGenerator[Shown, None]


async def watch(snapshots: Snapshots, *, one: bool, everywhere: bool, as_json: bool) -> None:
    """Until Ctrl-C; of `one` session also until it is gone."""
    async with contextlib.aclosing(snapshots):
        if sys.stdout.isatty() and not as_json:
            await draw(snapshots, one=one, everywhere=everywhere)
        else:
            await tell(snapshots, one=one, as_json=as_json)


async def tell(snapshots: Snapshots, *, one: bool, as_json: bool) -> None:
    before: Shown = {}
    async for after in snapshots:
        for each in happenings(before, after):
            stamp = clock().isoformat(timespec="seconds").replace("+00:00", "Z")
            if as_json:
                line = msgspec.json.encode({"time": stamp, **msgspec.to_builtins(each)}).decode()
            else:
                line = f"{stamp} {each.line}"
            print(line, flush=True)
        before = after
        if one and not after:
            return


async def draw(snapshots: Snapshots, *, one: bool, everywhere: bool) -> None:
    from rich.live import Live  # noqa: PLC0415 - too slow for the other commands
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    def drawn(now: Shown) -> Table | Text:
        if one and not now:
            return Text("The session is gone.")
        header, rows = (
            clients_table(next(iter(now.values())), clock())
            if one
            else sessions_table(now.values(), clock(), everywhere=everywhere)
        )
        title = shown_session(next(iter(now.values())), clock()).splitlines()[0] if one else None
        table = Table(*header, box=None, title=title, title_justify="left", pad_edge=False)
        for row in rows:
            table.add_row(*styled(row))
        return table

    with Live(auto_refresh=False) as live:
        now: Shown = {}
        following = asyncio.ensure_future(anext(snapshots))
        try:
            while True:
                done, _ = await asyncio.wait({following}, timeout=LIVE_SECONDS)
                if done:
                    now = following.result()
                    following = asyncio.ensure_future(anext(snapshots))
                    live.update(drawn(now), refresh=True)
                    if one and not now:
                        return
                elif now:
                    live.update(drawn(now), refresh=True)
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await following


COLOURS = {
    "Ready": "green",
    "Starting": "yellow",
    "Asked": "yellow",
    "Recovering": "yellow",
    "NotReady": "yellow",
    "WaitForReconnection": "yellow",
    "Refused": "red",
    "Expired": "red",
}


def styled(row: Row) -> list[Text]:
    from rich.text import Text  # noqa: PLC0415 - too slow for the other commands

    return [Text(cell, style=COLOURS.get(cell.partition(" ")[0], "")) for cell in row]
