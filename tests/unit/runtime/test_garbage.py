"""A collection of garbage looks at what is new, however much there is."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Iterator

import pytest

from edgewise.runtime.garbage import COLLECT, collect_when_told, put_old_objects_aside


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
    gc.disable()  # one that comes by itself, between two lines of a test, is not what it looks at
    yield found
    gc.enable()
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


def test_a_process_that_is_told_collects_what_was_put_aside_as_well(clock: Clock) -> None:
    node = Node()
    gone = weakref.ref(node)
    gc.collect()  # which puts it aside
    del node
    gc.collect()
    assert gone() is not None
    before = signal.getsignal(COLLECT)
    try:
        collect_when_told()
        os.kill(os.getpid(), COLLECT)
        assert gone() is None
    finally:
        signal.signal(COLLECT, before)
