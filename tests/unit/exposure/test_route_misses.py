"""A route that no gateway takes is counted once."""

from edgewise.exposure.route import Owner
from edgewise.exposure.route_misses import RouteMisses

ONE = Owner("sessions", "ns/a")
OTHERS = (Owner("sessions", "ns/b"), Owner("games", "ns/a"))


def test_a_retry_is_not_counted_again() -> None:
    misses = RouteMisses()
    assert misses.note(ONE, {"r1", "r2"}, set()) == 2
    assert misses.note(ONE, {"r1", "r2"}, set()) == 0
    assert misses.note(ONE, {"r1", "r2", "r3"}, {"r1"}) == 1


def test_a_route_that_was_served_and_is_missed_again_counts_again() -> None:
    misses = RouteMisses()
    assert misses.note(ONE, {"r1"}, set()) == 1
    assert misses.note(ONE, {"r1"}, {"r1"}) == 0
    assert misses.note(ONE, {"r1"}, set()) == 1


def test_owners_do_not_hide_each_others_misses_and_are_forgotten() -> None:
    misses = RouteMisses()
    for owner in (ONE, *OTHERS):
        assert misses.note(owner, {"r1"}, set()) == 1
    misses.forget(ONE)
    for owner in OTHERS:
        assert misses.note(owner, {"r1"}, {"r1"}) == 0
    assert len(misses) == 0
