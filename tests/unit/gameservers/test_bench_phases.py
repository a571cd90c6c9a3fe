"""How a bench makes its ratios."""

from edgewise.bench.gameservers.fleet import down_figures, up_figures
from edgewise.bench.gameservers.phases import Costs, middle_ratio


def costs(seconds: float, cpu: float = 1.0, writes: float = 0.0, conflicts: float = 0.0) -> Costs:
    return Costs(seconds=seconds, programs={"etcd": cpu}, writes=writes, conflicts=conflicts)


def test_each_run_is_compared_with_the_floor_beside_it() -> None:
    # The machine was four times as slow in the second run, for both.
    assert middle_ratio([2.0, 8.0, 3.0], [1.0, 4.0, 1.0]) == 2.0


def test_a_floor_that_was_not_measured_gives_no_ratio() -> None:
    assert middle_ratio([2.0], [0.0]) is None


def test_the_figures_of_a_fleet() -> None:
    fleets = [costs(4.0, 6.0, 30.0, 3.0), costs(6.0, 9.0, 32.0)]
    bare = [costs(2.0, 3.0), costs(3.0, 3.0)]
    figures = up_figures(10, fleets, bare)
    assert figures["fleet_s"] == 5.0
    assert figures["ratio"] == 2.0
    assert figures["cpu_ratio"] == 2.5
    assert figures["writes_per_server"] == 3.1
    assert figures["conflicts"] == round(3 / 62, 4)


def test_the_figures_of_a_removal() -> None:
    figures = down_figures(10, [costs(6.0, writes=50.0)], [costs(2.0)])
    assert figures["down_ratio"] == 3.0
    assert figures["writes_per_removal"] == 5.0
