"""What a terminal is shown: text of others, and nothing that it would obey.

A container writes what it likes into its termination message, a game into its labels, a server of
a kubeconfig into its errors. All of that ends in the line of a person, where an escape sequence
could move the cursor, hide lines or write into the title and the clipboard.
"""

from __future__ import annotations

import io
import re
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

# The two blocks of control characters but for the end of a line and the tab, and the marks that
# turn the direction of text, by which a name reads as another one.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """The same, with what a terminal would obey written out: `\\x1b` for an escape."""
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


class ShownText(io.TextIOWrapper):
    """Standard output or error for all that is printed. `drawing` is for what we draw ourselves."""

    def __init__(self, drawing: io.TextIOWrapper) -> None:
        super().__init__(
            drawing.buffer,
            encoding=drawing.encoding,
            errors=drawing.errors,
            line_buffering=drawing.line_buffering,
            write_through=drawing.write_through,
        )
        self.drawing = drawing

    def write(self, text: str, /) -> int:
        super().write(harmless(text))
        return len(text)


def show_text_only() -> None:
    """From now on nothing that is printed moves a cursor."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # What a test or another program put there is theirs.
        if type(stream) is io.TextIOWrapper:
            setattr(sys, name, ShownText(stream))


def drawing_console(*, stderr: bool = False, width: int | None = None) -> Console:
    """For live tables, which move the cursor: what is drawn there has to be `harmless` itself."""
    from rich.console import Console  # noqa: PLC0415 - too slow for the other commands

    stream: TextIO = sys.stderr if stderr else sys.stdout
    drawing = stream.drawing if isinstance(stream, ShownText) else None
    return Console(file=drawing, stderr=stderr, width=width)
