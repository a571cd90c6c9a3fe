"""The commands of the pages are run, and say what the pages say they do."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewise.local import clusters
from edgewise.local.layout import homes
from tests.docs.pages import Block, blocks_of, mismatch

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
IDS = [path.relative_to(ROOT).as_posix() for path in PAGES]
BIN = Path(sys.executable).parent


def pages_to_run() -> Iterator[object]:
    for path, name in zip(PAGES, IDS, strict=True):
        tested = [block for block in blocks_of(path.read_text()) if block.tested]
        if tested:
            root = any(block.needs_root for block in tested)
            marks = [pytest.mark.root] if root else []
            yield pytest.param(tested, id=name, marks=marks)


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_every_command_is_tested_or_says_why_not(path: Path) -> None:
    for block in blocks_of(path.read_text()):
        assert block.language == "console", f"line {block.line}: write ```console with `$ `"
        assert block.commands, f"line {block.line}: no line begins with `$ `"
        assert block.explained, f"line {block.line}: put <!-- test --> before it, or say why not"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to be in, with clusters of its own."""
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    folder = tmp_path / "here"
    folder.mkdir()
    yield folder
    for home in homes():
        clusters.down(home.name)


@pytest.mark.parametrize("blocks", list(pages_to_run()))
def test_the_commands_of_a_page(blocks: list[Block], place: Path) -> None:
    """One shell for a page, so that what a command sets is there for the next."""
    commands = [(block, command) for block in blocks for command in block.commands]
    # What a page runs in the background ends with it, also when a command before that fails.
    script = "trap 'kill $(jobs -p) 2>/dev/null' EXIT\n" + "".join(
        f"{{ {command.text}\n}} >{place.parent}/{number}.out 2>{place.parent}/{number}.err "
        f"|| exit $?\n"
        for number, (_, command) in enumerate(commands)
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=place,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        timeout=280,
        check=False,
    )
    for number, (block, command) in enumerate(commands):
        where = f"line {block.line}: $ {command.text}"
        out, err = (place.parent / f"{number}.{kind}" for kind in ("out", "err"))
        assert out.exists(), f"{where}: was not reached"
        last = number + 1 == len(commands) or not (place.parent / f"{number + 1}.out").exists()
        assert not last or done.returncode == 0, (
            f"{where}: exit code {done.returncode}\n{err.read_text()}"
        )
        lacking = mismatch(command.expected, out.read_text())
        assert not lacking, f"{where}: expected {lacking!r} in\n{out.read_text()}"
