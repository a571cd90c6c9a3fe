"""What the pages say can be imported from somewhere can be imported from there."""

import importlib
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
STATEMENT = re.compile(r"^from (edgewise[\w.]*) import (.+)$", re.MULTILINE)
ROW = re.compile(r"^\| (`edgewise\.[\w.`, ]*`) \| ([^|]*) \|$", re.MULTILINE)


def claims() -> list[tuple[str, list[str], list[str]]]:
    """Page and modules, and the names that at least one of the modules has to have."""
    found = []
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        name = str(page.relative_to(DOCS))
        found += [(name, [m], re.findall(r"\w+", n)) for m, n in STATEMENT.findall(text)]
        for modules, names in ROW.findall(text):
            found.append((name, re.findall(r"`([\w.]+)`", modules), re.findall(r"`(\w+)`", names)))
    return found


@pytest.mark.parametrize(("page", "modules", "names"), claims())
def test_it_is_there(page: str, modules: list[str], names: list[str]) -> None:
    loaded = [importlib.import_module(module) for module in modules]
    for name in names:
        assert any(hasattr(module, name) for module in loaded), f"{page}: {name}"


def test_a_controllers_page_says_where_things_are() -> None:
    assert any(page == "how-to/write-a-controller.md" for page, _, _ in claims())
