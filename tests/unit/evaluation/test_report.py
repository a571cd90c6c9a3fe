import pytest

from edgewise.bench.evaluation.report.chapters import number


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "–"),
        (0.12345, "0.123"),
        (12.0, "12"),
        (99.96, "100"),
        (3617.3, "3617"),
        (2e6, "2e+06"),
    ],
)
def test_a_number_is_told_in_three_digits_or_as_a_whole(value: float | None, told: str) -> None:
    assert number(value) == told
