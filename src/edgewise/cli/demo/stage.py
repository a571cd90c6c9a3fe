"""How the demo speaks: a live table at a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from edgewise.cli.terminal import drawing_console


@dataclass(frozen=True)
class Row:
    """One client, as far as it has come."""

    name: str
    location: str
    state: str
    seconds: float | None  # until it was ready


Show = Callable[[list[Row]], None]


class Stage:
    """Numbered acts, each told in a line when it is over."""

    def __init__(self, acts: int) -> None:
        self.acts = acts
        self.number = 0
        self.started = time.monotonic()
        self.live = sys.stdout.isatty()

    def act(self, title: str) -> None:
        self.number += 1
        print(f"[{self.number}/{self.acts}] {title}", flush=True)

    def say(self, text: str) -> None:
        print(f"      {text}", flush=True)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @contextmanager
    def table(self) -> Iterator[Show]:
        """A function that is given all rows whenever one of them changed."""
        if self.live:
            with live_table() as show:
                yield show
        else:
            yield self.lines()

    def lines(self) -> Show:
        told: set[str] = set()

        def show(rows: list[Row]) -> None:
            for row in rows:
                if row.seconds is not None and row.name not in told:
                    told.add(row.name)
                    self.say(f"{row.name} in {row.location}: ready after {row.seconds:.1f} s")

        return show


@contextmanager
def live_table() -> Iterator[Show]:
    from rich.live import Live  # noqa: PLC0415 - too slow for the other commands
    from rich.table import Table  # noqa: PLC0415

    with Live(console=drawing_console(), refresh_per_second=10) as live:

        def show(rows: list[Row]) -> None:
            table = Table(box=None, padding=(0, 2, 0, 6))
            for column in ("client", "location", "state", "ready after"):
                table.add_column(column, justify="right" if column == "ready after" else "left")
            for row in rows:
                ready = row.seconds is not None
                table.add_row(
                    row.name,
                    row.location or "-",
                    f"[green]{row.state}" if ready else f"[yellow]{row.state}",
                    f"{row.seconds:.1f} s" if row.seconds is not None else "",
                )
            live.update(table)

        yield show
