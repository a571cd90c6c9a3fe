"""Which failures of a run get another try."""

from __future__ import annotations

import pytest
from tools.once_more import main, worth_another_try

REAL = "tests/e2e/local/test_pods.py::test_one"


@pytest.mark.parametrize(
    ("failed", "again"),
    [
        ([REAL], True),
        (
            [REAL, "tests/docs/test_pages.py::test_a_page", "tests/chaos/test_soak.py::test_it"],
            True,
        ),
        ([], False),
        ([f"{REAL}{number}" for number in range(4)], False),
        ([REAL, "tests/unit/api/test_schema.py::test_one"], False),
        (["tests/integration/server/test_command.py::test_one"], False),
        (["tests/project/test_words.py::test_one"], False),
    ],
)
def test_a_few_of_real_clusters_are_tried_again_and_nothing_else(
    failed: list[str], again: bool
) -> None:
    assert worth_another_try(failed) is again


@pytest.mark.parametrize("code", ["2", "3", "4", "5"])
def test_a_run_that_did_not_end_by_itself_stays_failed(code: str) -> None:
    assert main(code) == int(code)
