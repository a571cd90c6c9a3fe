"""Keys that wait to be reconciled.

- A key waits at most once, however often it is added.
- A key that is being worked on is not handed out again; it waits until `done`.
- Keys are handed out in the order they came, taking turns between flows (by default
  namespaces), so that one tenant with ten thousand changes does not hold up another.
- What comes with a whole list (`bulk`) lets fresh changes pass, but never starves.
- A delayed key comes after its delay, or earlier if something changed; taking a key
  drops its delay, because the reconcile that now runs decides anew.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from edgewise.errors import ReadableError
from edgewise.runtime.backoff import Backoff

K = TypeVar("K", bound=Hashable)

# Of so many keys handed out in a row, at least one is from the bulk lane if any waits.
BULK_TURN = 4
# A stepped wall clock is noticed within this time.
WALL_CLOCK_CHECK = 1.0


class QueueClosed(ReadableError):
    """No more keys will be handed out."""


class QueueObserver(Protocol):
    """What the metrics want to know."""

    def added(self) -> None: ...
    def waited(self, seconds: float) -> None: ...
    def retried(self) -> None: ...


class _Lane(Generic[K]):
    """First in, first out within a flow; the flows take turns."""

    def __init__(self) -> None:
        self._flows: dict[Hashable, deque[K]] = {}

    def push(self, flow: Hashable, key: K) -> None:
        self._flows.setdefault(flow, deque()).append(key)

    def pop(self) -> K | None:
        if not self._flows:
            return None
        flow = next(iter(self._flows))
        keys = self._flows.pop(flow)
        key = keys.popleft()
        if keys:
            self._flows[flow] = keys  # to the end of the line
        return key


def flow_of(key: Hashable) -> Hashable:
    return getattr(key, "namespace", None)


class WorkQueue(Generic[K]):
    def __init__(
        self,
        *,
        backoff: Backoff | None = None,
        flow: Callable[[K], Hashable] = flow_of,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        observer: QueueObserver | None = None,
    ) -> None:
        self._backoff = backoff or Backoff()
        self._flow = flow
        self._clock = clock
        self._monotonic = monotonic
        self._chance = chance
        self._observer = observer
        self._fresh: _Lane[K] = _Lane()
        self._bulk: _Lane[K] = _Lane()
        # Key -> (its lane, since when). A lane may hold entries that are no longer true.
        self._waiting: dict[K, tuple[_Lane[K], float]] = {}
        self._bulk_waiting = 0
        self._fresh_in_a_row = 0
        self._working: set[K] = set()
        self._again: dict[K, bool] = {}  # changed while worked on -> whether only in bulk
        self._delays: dict[K, float] = {}
        self._delay_heap: list[tuple[float, int, K]] = []
        self._moments: dict[K, float] = {}
        self._moment_heap: list[tuple[float, int, K]] = []
        self._order = 0
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    # Adding -------------------------------------------------------------------------

    def add(self, key: K, *, bulk: bool = False) -> None:
        """Something about `key` changed."""
        if key in self._working:
            self._again[key] = self._again.get(key, True) and bulk
            return
        waiting = self._waiting.get(key)
        if waiting is not None:
            if bulk or waiting[0] is self._fresh:
                return
            self._bulk_waiting -= 1
            self._push(key, self._fresh, waiting[1])
            return
        self._push(key, self._bulk if bulk else self._fresh, self._monotonic())
        if self._observer:
            self._observer.added()
        self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Add `key` in `seconds`; of several delays the shortest counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._monotonic() + seconds
        if key in self._delays and self._delays[key] <= due:
            return
        self._schedule(key, due, self._delays, self._delay_heap)

    def add_at(self, key: K, moment: float) -> None:
        """Add `key` when the wall clock shows `moment`, also if the clock is stepped."""
        if moment <= self._clock():
            self.add(key)
            return
        if key in self._moments and self._moments[key] <= moment:
            return
        self._schedule(key, moment, self._moments, self._moment_heap)

    def retry(self, key: K, *, after: float | None = None) -> float:
        """Add `key` again after a failure, later each time or as said; answers the delay."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(failures, self._chance) if after is None else after
        if self._observer:
            self._observer.retried()
        self.add_after(key, delay)
        return delay

    def failures(self, key: K) -> int:
        """How often `key` failed in a row."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """`key` succeeded: its next failure is a first one."""
        self._failures.pop(key, None)

    # Taking -------------------------------------------------------------------------

    def take(self) -> K | None:
        """The next key, or None; the taker must call `done`."""
        self.advance()
        key = self._next()
        if key is None:
            return None
        _, since = self._waiting.pop(key)
        self._delays.pop(key, None)
        self._moments.pop(key, None)
        self._working.add(key)
        if self._observer:
            self._observer.waited(self._monotonic() - since)
        return key

    def done(self, key: K) -> None:
        """The taker is finished with `key`."""
        self._working.discard(key)
        if key in self._again:
            self.add(key, bulk=self._again.pop(key))

    async def get(self) -> K:
        """Wait for the next key. Raises QueueClosed after `close`."""
        self._loop = asyncio.get_running_loop()
        while not self._closed:
            key = self.take()
            if key is not None:
                return key
            self._arm()
            getter = self._loop.create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter in self._getters:
                    self._getters.remove(getter)
                elif not self._closed:
                    self._wake()  # the call was for us; pass it on
                raise
        raise QueueClosed

    def close(self) -> None:
        """Hand out nothing more; those who wait are told."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake()

    def open(self) -> None:
        """Hand out keys again, after a `close`."""
        self._closed = False

    def __len__(self) -> int:
        """How many keys could be worked on now, if somebody had time."""
        return len(self._waiting)

    @property
    def delayed(self) -> int:
        return len(self._delays.keys() | self._moments.keys())

    @property
    def working(self) -> int:
        return len(self._working)

    # Time ---------------------------------------------------------------------------

    def advance(self) -> None:
        """Move the keys whose time has come to those that wait."""
        now = self._monotonic()
        while self._delay_heap and self._delay_heap[0][0] <= now:
            due, _, key = heapq.heappop(self._delay_heap)
            if self._delays.get(key) == due:
                del self._delays[key]
                self.add(key)
        if not self._moment_heap:
            return
        wall = self._clock()
        while self._moment_heap and self._moment_heap[0][0] <= wall:
            moment, _, key = heapq.heappop(self._moment_heap)
            if self._moments.get(key) == moment:
                del self._moments[key]
                self.add(key)

    def next_due(self) -> float | None:
        """In how many seconds `advance` is worth calling again."""
        waits = []
        if self._delay_heap:
            waits.append(self._delay_heap[0][0] - self._monotonic())
        if self._moment_heap:
            waits.append(min(self._moment_heap[0][0] - self._clock(), WALL_CLOCK_CHECK))
        return max(0.0, min(waits)) if waits else None

    # Inside -------------------------------------------------------------------------

    def _push(self, key: K, lane: _Lane[K], since: float) -> None:
        self._waiting[key] = (lane, since)
        self._bulk_waiting += lane is self._bulk
        lane.push(self._flow(key), key)

    def _schedule(
        self, key: K, due: float, times: dict[K, float], heap: list[tuple[float, int, K]]
    ) -> None:
        times[key] = due
        self._order += 1
        heapq.heappush(heap, (due, self._order, key))
        if len(heap) > 2 * len(times) + 64:
            # Times that were dropped or moved stay in the heap until they are swept out.
            heap[:] = [entry for entry in heap if times.get(entry[2]) == entry[0]]
            heapq.heapify(heap)
        self._arm()

    def _next(self) -> K | None:
        lanes = [self._fresh, self._bulk]
        if self._fresh_in_a_row >= BULK_TURN - 1:
            lanes.reverse()
        for lane in lanes:
            while (key := lane.pop()) is not None:
                waiting = self._waiting.get(key)
                if waiting is None or waiting[0] is not lane:
                    continue  # it moved to the other lane, or was taken from there
                if lane is self._bulk:
                    self._bulk_waiting -= 1
                    self._fresh_in_a_row = 0
                else:
                    self._fresh_in_a_row = self._fresh_in_a_row + 1 if self._bulk_waiting else 0
                return key
        return None

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _arm(self) -> None:
        if self._loop is None or self._closed:
            return
        wait = self.next_due()
        if wait is None:
            return
        due = self._loop.time() + wait
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer, self._timer_due = self._loop.call_at(due, self._ring), due

    def _ring(self) -> None:
        self._timer = None
        self.advance()
        self._arm()
