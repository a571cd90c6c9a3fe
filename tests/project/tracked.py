"""What git keeps: a test that reads the tree must not read what is made beside it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked_names(*under: str) -> list[str]:
    # The folder may belong to another account than the one that runs the tests.
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--", *under],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout.decode()
    return [name for name in listed.split("\0") if name]


def tracked_texts(*under: str) -> Iterator[tuple[str, str]]:
    """Path and text of each tracked file; what is no text has no words."""
    for name in tracked_names(*under):
        path = ROOT / name
        if path.is_file() and not path.is_symlink():
            try:
                yield name, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
