"""Links of the pages that MkDocs does not build lead to files that are there."""

import re

import pytest

from tests.project.tracked import ROOT, tracked_names

LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
PAGES = [
    name
    for name in tracked_names()
    if name.endswith(".md") and not name.startswith(("docs/", "tests/"))
]


@pytest.mark.parametrize("page", PAGES)
def test_a_link_leads_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    links = LINK.findall((ROOT / page).read_text())
    assert [link for link in links if not (folder / link).exists()] == []


def test_the_readme_is_among_them() -> None:
    assert "README.md" in PAGES
