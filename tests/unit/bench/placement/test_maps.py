import math

import pytest

from edgewise.bench.placement.maps import Map, TooManyNodes, noise, one_way, round_trips
from edgewise.local.network.delay import Delay


def test_table_3_has_half_of_each_round_trip_each_way() -> None:
    assert [each.ms for each in one_way(Map.TABLE3, 10)] == [
        0.0,
        5.0,
        12.5,
        25.0,
        37.5,
        50.0,
        75.0,
        100.0,
        150.0,
        250.0,
    ]


def test_the_noise_of_both_ways_adds_up_to_that_of_table_1() -> None:
    tokyo = one_way(Map.TABLE1, 8)[-1]
    assert tokyo.ms * 2 == pytest.approx(256.05)
    assert math.hypot(tokyo.jitter, tokyo.jitter) == pytest.approx(12.533, rel=0.001)


def test_few_nodes_lie_far_from_each_other() -> None:
    assert round_trips(Map.TABLE3, 4) == [0, 25, 75, 150]
    assert [each.ms * 2 for each in one_way(Map.TABLE3, 4)] == [0, 25, 75, 150]
    assert round_trips(Map.TABLE3, 6) == [0, 10, 25, 50, 75, 100]


def test_there_are_not_more_nodes_than_distances() -> None:
    with pytest.raises(TooManyNodes, match="table1 has 8 distances"):
        round_trips(Map.TABLE1, 9)


def test_noise_is_a_share_of_the_gap_to_the_nearest_neighbour() -> None:
    noisy = noise([Delay(0), Delay(5), Delay(50)], 0.2)
    assert [each.ms for each in noisy] == [0, 5, 50]
    jitters = [each.jitter * math.sqrt(2) for each in noisy]
    assert jitters == pytest.approx([2.0, 2.0, 18.0], rel=0.001)
