"""A collection of garbage looks at what is new, however much there is."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from edgewise.runtime.garbage import put_old_objects_aside


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Node:
    """Refers to itself: nothing but a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def clock() -> Iterator[Clock]:
    found = Clock()
    end = put_old_objects_aside(look_at_all_after=60.0, monotonic=found)
    yield found
    end()
    assert gc.get_freeze_count() == 0


def looked_at() -> int:
    """At how many objects a full collection would look now."""
    return len(gc.get_objects())


def test_what_was_there_before_is_not_looked_at_again(clock: Clock) -> None:
    kept = [[number] for number in range(10_000)]
    assert looked_at() > len(kept)
    gc.collect()
    few = looked_at()
    assert few < 1_000
    kept += [[number] for number in range(10_000)]
    gc.collect()
    assert looked_at() < 1_000


def test_new_garbage_is_freed_as_ever(clock: Clock) -> None:
    gc.collect()
    made = weakref.ref(Node())
    gc.collect()
    assert made() is None


def test_garbage_that_was_put_aside_is_freed_in_time(clock: Clock) -> None:
    kept = Node()
    made = weakref.ref(kept)
    gc.collect()
    del kept
    gc.collect()
    assert made() is not None
    clock.now = 60.0
    gc.collect()
    assert made() is None
