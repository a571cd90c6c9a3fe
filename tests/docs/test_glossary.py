"""The glossary has one row for a word, and a reader finds it where the alphabet says."""

import re
from pathlib import Path

GLOSSARY = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text()


def test_words_are_in_order_and_have_one_meaning() -> None:
    words = re.findall(r"^\| \*\*(.+?)\*\* \| \S", GLOSSARY, re.MULTILINE)
    assert words == sorted(set(words))
    assert {"client", "cluster", "location", "provider", "seat", "tenant"} <= set(words)
