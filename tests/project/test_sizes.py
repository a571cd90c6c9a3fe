"""No file and no folder grows until nobody finds anything in it any more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.project.tracked import tracked_names, tracked_texts

MOST_LINES = 550
MOST_MODULES = 25
# What was there before there was a bound: it may shrink, and never grow.
LONG = {
    "tests/unit/sessions/test_behaviour.py": 1027,
    "tests/unit/sessions/world.py": 635,
}
CROWDED: dict[str, int] = {}


def test_no_file_is_too_long() -> None:
    lines = {
        path: len(text.splitlines())
        for path, text in tracked_texts("src", "tests", "examples", "tools")
        if path.endswith(".py")
    }
    assert {path: n for path, n in lines.items() if n > LONG.get(path, MOST_LINES)} == {}


def test_no_folder_has_too_many_modules() -> None:
    modules = Counter(
        str(Path(name).parent)
        for name in tracked_names("src", "tests")
        if name.endswith(".py") and not name.endswith("/__init__.py")
    )
    assert {at: n for at, n in modules.items() if n > CROWDED.get(at, MOST_MODULES)} == {}


@pytest.mark.parametrize("path", [*LONG, *CROWDED])
def test_an_exception_is_still_there(path: str) -> None:
    assert tracked_names(path), "take it out of the list"
