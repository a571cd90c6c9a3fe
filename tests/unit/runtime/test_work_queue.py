"""The work queue inside an event loop: waiting, waking, timers, closing; and its fairness."""

from __future__ import annotations

import asyncio

import pytest

from edgewise.kube.objects import Key
from edgewise.runtime.queue import QueueClosed, WorkQueue
from edgewise.testing.eventually import eventually


def drain(queue: WorkQueue[Key]) -> list[Key]:
    taken = []
    while (key := queue.take()) is not None:
        taken.append(key)
    return taken


def test_flows_take_turns_so_a_busy_tenant_does_not_hold_up_a_quiet_one() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    for number in range(100):
        queue.add(Key("busy", f"{number:03}"))
    queue.add(Key("quiet", "only"))
    assert drain(queue).index(Key("quiet", "only")) == 1


def test_within_a_flow_keys_come_in_the_order_they_were_added() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    keys = [Key("n", name) for name in "qwerty"]
    for key in keys:
        queue.add(key)
    assert drain(queue) == keys


def test_a_fresh_change_overtakes_the_keys_of_a_first_list() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    for number in range(50):
        queue.add(Key("n", f"old-{number}"), bulk=True)
    queue.add(Key("n", "old-49"))
    assert queue.take() == Key("n", "old-49")
    assert len(drain(queue)) == 49


def test_dropped_delays_do_not_pile_up() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    for _ in range(10_000):
        queue.add(Key("n", "a"))
        assert queue.take() == Key("n", "a")
        queue.add_after(Key("n", "a"), 3600)
        queue.done(Key("n", "a"))
    assert len(queue._delay_heap) < 200


async def test_a_waiting_worker_gets_a_key_that_is_added_later() -> None:
    queue: WorkQueue[str] = WorkQueue()
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    assert await asyncio.wait_for(getting, 5) == "a"


async def test_a_delayed_key_wakes_a_waiting_worker() -> None:
    queue: WorkQueue[str] = WorkQueue()
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("late", 3600)
    queue.add_after("a", 0.01)
    assert await asyncio.wait_for(getting, 5) == "a"


async def test_a_moment_comes_early_when_the_wall_clock_is_stepped_past_it() -> None:
    wall = 1000.0
    queue: WorkQueue[str] = WorkQueue(clock=lambda: wall)
    getting = asyncio.create_task(queue.get())
    queue.add_at("a", 5000.0)
    await asyncio.sleep(0)
    wall = 6000.0
    assert await asyncio.wait_for(getting, 5) == "a"


async def test_a_cancelled_worker_passes_its_call_on() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 5) == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_closing_tells_those_who_wait_and_opening_hands_out_what_stayed() -> None:
    queue: WorkQueue[str] = WorkQueue()
    getting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    for task in getting:
        with pytest.raises(QueueClosed):
            await asyncio.wait_for(task, 5)
    queue.add("a")
    with pytest.raises(QueueClosed):
        await queue.get()
    queue.open()
    assert await asyncio.wait_for(queue.get(), 5) == "a"


async def test_keys_that_change_while_worked_on_are_never_worked_on_twice_at_once() -> None:
    queue: WorkQueue[int] = WorkQueue()
    running: set[int] = set()
    seen: list[int] = []

    async def worker() -> None:
        while True:
            key = await queue.get()
            assert key not in running
            running.add(key)
            await asyncio.sleep(0)
            queue.add((key + 1) % 5)
            await asyncio.sleep(0)
            running.remove(key)
            seen.append(key)
            queue.done(key)

    workers = [asyncio.create_task(worker()) for _ in range(4)]
    for key in range(5):
        queue.add(key)
    await eventually(lambda: len(seen) >= 500)
    for task in workers:
        assert not task.done()
        task.cancel()
