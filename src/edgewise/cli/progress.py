"""Showing long work: a live line at a terminal, plain lines elsewhere.

Everything goes to stderr, so that a command's output stays its own.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from edgewise.cli.terminal import drawing_console, harmless

Progress = Callable[[str, str], None]

QUIET = 15.0  # seconds between plain lines about the same subject


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A function to call with (what is being worked on, how it stands)."""
    if sys.stderr.isatty():
        with live() as progress:
            yield progress
    else:
        yield PlainLines()


class PlainLines:
    """Every new subject and every change of state, but counters only now and then."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.started = clock()
        self.last: dict[str, tuple[str, float]] = {}
        self.lock = threading.Lock()

    def __call__(self, subject: str, state: str) -> None:
        kind, now = without_numbers(state), self.clock()
        with self.lock:
            before, when = self.last.get(subject, ("", -QUIET))
            if kind == before and now - when < QUIET:
                return
            self.last[subject] = (kind, now)
            print(f"[{now - self.started:5.0f} s] {subject}: {state}", file=sys.stderr, flush=True)


def without_numbers(state: str) -> str:
    return "".join(letter for letter in state if not letter.isdigit())


@contextmanager
def live() -> Iterator[Progress]:
    from rich.progress import Progress as Bar  # noqa: PLC0415 - too slow for the other commands
    from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.fields[state]}", style="dim", markup=False),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=drawing_console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def progress(subject: str, state: str) -> None:
            if subject not in tasks:
                tasks[subject] = bar.add_task(harmless(subject), total=None, state=harmless(state))
            bar.update(tasks[subject], state=harmless(state))

        yield progress
