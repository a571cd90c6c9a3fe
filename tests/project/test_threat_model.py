"""Each test that the threat model names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_is_named_exists() -> None:
    text = (ROOT / "docs" / "threat-model.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 20
    defined = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", file.read_text())
    }
    assert named - defined == set()
