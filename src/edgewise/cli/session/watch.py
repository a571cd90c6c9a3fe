"""Watching sessions: a live table at a terminal, a line for each change elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from edgewise.api.sessions import ClientPhase
from edgewise.cli.session.source import Shown
from edgewise.cli.session.text import (
    Row,
    clients_table,
    clock,
    happenings,
    sessions_table,
    shown_session,
)
from edgewise.cli.terminal import drawing_console, harmless

if TYPE_CHECKING:
    from rich.console import RenderableType
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

    def show(now: Shown) -> None:
        live.update(drawn(now, clock(), one=one, everywhere=everywhere), refresh=True)

    with Live(console=drawing_console(), auto_refresh=False) as live:
        now: Shown = {}
        following = asyncio.ensure_future(anext(snapshots))
        try:
            while True:
                done, _ = await asyncio.wait({following}, timeout=LIVE_SECONDS)
                if done:
                    now = following.result()
                    following = asyncio.ensure_future(anext(snapshots))
                    show(now)
                    if one and not now:
                        return
                elif now:
                    show(now)
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await following


def drawn(now: Shown, moment: datetime, *, one: bool, everywhere: bool) -> RenderableType:
    """A table, and under it whatever is waited for."""
    from rich.console import Group  # noqa: PLC0415 - too slow for the other commands
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if not now:
        return Text("The session is gone." if one else "There are no sessions.")
    parts: list[RenderableType] = []
    if one:
        session = next(iter(now.values()))
        parts.append(Text(harmless(shown_session(session, moment).splitlines()[0])))
        header, rows = clients_table(session, moment)
        notes = [harmless(f"{each.client}: {each.message}") for each in session.waiting]
    else:
        header, rows = sessions_table(now.values(), moment, everywhere=everywhere)
        notes = [harmless(f"{each.name}: {each.trouble}") for each in now.values() if each.trouble]
    table = Table(*header, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*styled(row))
    return Group(*parts, table, *map(Text, notes))


COLOURS = {
    ClientPhase.READY: "green",
    ClientPhase.STARTING: "yellow",
    "Asked": "yellow",
    ClientPhase.RECOVERING: "yellow",
    ClientPhase.NOT_READY: "yellow",
    ClientPhase.DISCONNECTED: "yellow",
    ClientPhase.REFUSED: "red",
    ClientPhase.EXPIRED: "red",
}


def styled(row: Row) -> list[Text]:
    from rich.text import Text  # noqa: PLC0415 - too slow for the other commands

    return [Text(harmless(cell), style=COLOURS.get(cell.partition(" ")[0], "")) for cell in row]
