"""What the doctor takes for the same, and what it says."""

from typing import Any

import pytest

from edgewise.cli.tenant.doctor.command import lines
from edgewise.cli.tenant.doctor.finding import Finding
from edgewise.cli.tenant.doctor.pieces import within

CASES: dict[str, tuple[Any, Any, bool]] = {
    "the same": ({"a": [{"b": 1}]}, {"a": [{"b": 1}]}, True),
    "with what Kubernetes adds": ({"a": {"b": 1}}, {"a": {"b": 1, "scope": "*"}, "c": 2}, True),
    "what is empty may be left out": ({"a": [], "b": ""}, {}, True),
    "another value": ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, False),
    "one check less": ({"a": [1, 2]}, {"a": [1]}, False),
    "one check more": ({"a": [1]}, {"a": [1, 2]}, False),
    "left out": ({"a": 1}, {}, False),
    "of another type": ({"a": {"b": 1}}, {"a": "b"}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_whether_an_object_says_what_it_should(case: str) -> None:
    wanted, found, same = CASES[case]
    assert within(wanted, found) is same


def test_a_finding_is_a_line_and_an_advice() -> None:
    bad = Finding(check="network", good=False, found="open", reason="NotTried", advice="mend it")
    assert lines(bad) == ["NO  network: open (NotTried)", "      mend it"]
    assert lines(Finding(check="kinds", good=True, found="all")) == ["ok  kinds: all"]
