"""What others write is shown as text: nothing of it moves a cursor or passes for our own line."""

import os
import pty
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from edgewise.cli.session.text import Happening, table
from edgewise.cli.terminal import harmless

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b1A"
PROGRAM = """
from edgewise.cli import main
from edgewise.cli.lazy import LazyCommand
main.main({"show": LazyCommand("made_up_shown", "Shows."), "x": LazyCommand("json", "X.")})
"""
SHOWN = f"""
    import sys
    import typer
    from edgewise.cli.terminal import drawing_console
    app = typer.Typer()
    class MyError(Exception): pass
    MyError.__module__ = "edgewise.made_up"
    hostile = {HOSTILE!r}
    @app.command()
    def printed(): print("said:", hostile)
    @app.command()
    def echoed(): typer.echo("said: " + hostile)
    @app.command()
    def failed(): raise MyError("said: " + hostile)
    @app.command()
    def noted(): print("said:", hostile, file=sys.stderr)
    @app.command()
    def drawn(): drawing_console().print("[red]said: " + ascii(hostile)[1:-1], highlight=False)
    """


def at_a_terminal(tmp_path: Path, command: str) -> bytes:
    (tmp_path / "made_up_shown.py").write_text(textwrap.dedent(SHOWN))
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-c", PROGRAM, "show", command],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "TERM": "xterm", "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            timeout=30,
            check=False,
        )
        return os.read(ours, 65_536)
    finally:
        os.close(theirs)
        os.close(ours)


@pytest.mark.parametrize("command", ["printed", "echoed", "failed", "noted"])
def test_no_escape_of_others_reaches_a_terminal(tmp_path: Path, command: str) -> None:
    shown = at_a_terminal(tmp_path, command)
    assert rb"said: \x1b]0;owned\x07\x1b[2J\x9b1A" in shown
    assert b"\x1b" not in shown
    assert b"\x9b" not in shown


def test_what_we_draw_ourselves_has_its_colours(tmp_path: Path) -> None:
    assert b"\x1b[31msaid: " in at_a_terminal(tmp_path, "drawn")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ein Bär, 東京 🙂\tand\nso on", "ein Bär, 東京 🙂\tand\nso on"),
        ("over\rwritten", r"over\rwritten"),
        ("\x7f\x00", r"\x7f\x00"),
        ("turned \u202egnp.exe", r"turned \u202egnp.exe"),
    ],
    ids=["words of any language", "a return to the first column", "deletions", "turned text"],
)
def test_only_what_is_obeyed_is_written_out(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_a_message_of_many_lines_forges_no_row_and_no_change() -> None:
    forged = "it failed\n2026-01-01T00:00:00Z s/bob: Ready in p http://elsewhere"
    assert len(table(("WHY",), [(forged,)]).splitlines()) == 2
    assert len(Happening(namespace="", session="s", client="a", what=forged).line.splitlines()) == 1
