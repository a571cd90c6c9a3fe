"""What is measured beside its floor is measured at the same moments, and in turns."""

from __future__ import annotations

import pytest

from edgewise.bench.tenancy.crowd import tenths
from edgewise.bench.tenancy.pods import parts


@pytest.mark.parametrize(
    ("count", "over", "many"),
    [(1250, 32, 6), (2500, 32, 14), (10_000, 32, 16), (8, 2, 2), (1, 32, 2)],
)
def test_a_round_goes_back_and_forth_an_even_number_of_times(
    count: int, over: int, many: int
) -> None:
    found = parts(count, over)
    assert (sum(found), len(found)) == (count, many)
    assert max(found) - min(found) <= 1


def test_a_tenth_is_told_in_the_order_in_which_they_came() -> None:
    took = [0.1] * 100 + [9.0] * 800 + [0.3] * 100
    assert tenths(took) == {
        "p99_s": 9.0,
        "p99_first_tenth_s": 0.1,
        "p99_last_tenth_s": 0.3,
        "last_tenth_ratio": 3.0,
    }
