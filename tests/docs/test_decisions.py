"""A decision record answers four questions, and the page of figures stays one page."""

import re
from pathlib import Path

import pytest
import yaml

DOCS = Path(__file__).parents[2] / "docs"
RECORDS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
HEADINGS = ["Question", "Measured", "Choice", "What would change it"]


def test_records_are_numbered_without_a_gap() -> None:
    numbers = [int(record.name[:3]) for record in RECORDS]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_answers_the_four_questions(record: Path) -> None:
    text = record.read_text()
    assert re.fullmatch(r"\d{3}-[a-z0-9-]+\.md", record.name)
    assert text.startswith(f"# {record.name[:3]} ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_is_listed(record: Path) -> None:
    title = record.read_text().splitlines()[0].removeprefix("# ")
    assert f"[{title}]({record.name})" in (DOCS / "decisions" / "index.md").read_text()
    nav = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text())["nav"]
    assert f"decisions/{record.name}" in str(nav)


def test_the_figures_are_one_page() -> None:
    page = (DOCS / "benchmarks.md").read_bytes()
    assert len(page) <= 4096
    # How a figure was found out belongs into a record.
    assert b"decisions/index.md" in page
