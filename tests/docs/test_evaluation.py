"""The tables of the evaluation are what its stored results say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = "docs/evaluation.md"
FILES = ("tools/evaluation.py", PAGE, "docs/evaluation/results.json")


def check(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, root / "tools" / "evaluation.py", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_no_table_is_stale() -> None:
    done = check(ROOT)
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_number_that_was_changed_by_hand_is_found(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    page = tmp_path / PAGE
    page.write_text(page.read_text().replace("| `bare` | ", "| `bare` | 9", 1))
    assert check(tmp_path).returncode == 1
