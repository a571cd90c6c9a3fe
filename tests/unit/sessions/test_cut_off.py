"""An operator may be killed before or after any of its writes, and nothing comes of it.

Every write of every scenario is a cut point, once before the API server has carried it out
and once after.
"""

from __future__ import annotations

import pytest

from tests.unit.sessions.scenarios import SCENARIOS, play


@pytest.mark.parametrize("name", SCENARIOS)
async def test_all_is_well_without_a_cut(name: str) -> None:
    crew = await play(SCENARIOS[name])
    assert crew.operator.count > 5


@pytest.mark.parametrize("after", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("name", SCENARIOS)
async def test_all_is_well_when_the_operator_is_cut_off_at_any_write(
    name: str, after: bool
) -> None:
    scenario = SCENARIOS[name]
    writes = (await play(scenario)).operator.count
    for cut_at in range(1, writes + 1):
        try:
            crew = await play(scenario, cut_at, after=after)
        except AssertionError as error:
            raise AssertionError(f"cut off at write {cut_at} of {writes}: {error}") from error
        assert crew.cut
