"""Pages of matches leave nobody out."""

from __future__ import annotations

import pytest

from edgewise.api.games import Allocation, AllocationSpec
from edgewise.server.routes.games.allocations import page_of


def match(name: str, holder: str) -> Allocation:
    return Allocation.named(f"{name}-{holder}", "play", spec=AllocationSpec(match=name))


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 10])
def test_matches_of_one_name_are_on_one_page(limit: int) -> None:
    all_of_them = [match(*each) for each in ("aa", "ba", "bb", "bc", "ca", "da")]
    found: list[Allocation] = []
    after = ""
    while left := [each for each in all_of_them if each.spec.match > after]:
        page = page_of(left, limit)
        found += page
        after = page[-1].spec.match
    assert found == all_of_them
    assert page_of([], limit) == []
