"""The files that a design page or a decision record names are there."""

import re

import pytest

from tests.project.tracked import ROOT, tracked_names

NAMED = re.compile(r"`([\w/-]+\.(?:py|lua|md|toml))`")
PAGES = [name for name in tracked_names("docs/design", "docs/decisions") if name.endswith(".md")]


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_exists(page: str) -> None:
    files = [f"/{name}" for name in tracked_names()]
    named = NAMED.findall((ROOT / page).read_text())
    assert [name for name in named if not any(f.endswith(f"/{name}") for f in files)] == []
