"""The work queue against a model, with hypothesis choosing the order of calls and the time."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from edgewise.kube.objects import Key
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.queue import BULK_TURN, WorkQueue

KEYS = st.builds(Key, st.sampled_from(["blue", "green"]), st.sampled_from(["a", "b", "c"]))
SECONDS = st.integers(1, 50).map(float)


class QueueModel(RuleBasedStateMachine):
    """The model: which keys are owed to a worker, which are delayed until when, which run."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 1000.0
        self.wall = 5_000_000.0
        self.owed: dict[Key, bool] = {}  # -> whether only bulk
        self.running: set[Key] = set()
        self.again: dict[Key, bool] = {}
        self.delays: dict[Key, float] = {}
        self.moments: dict[Key, float] = {}
        self.failures: dict[Key, int] = {}
        self.passed_over = 0

    @initialize()
    def start(self) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(
            backoff=Backoff(first=2.0, most=30.0),
            clock=lambda: self.wall,
            monotonic=lambda: self.time,
            chance=lambda: 1.0,
        )

    def owe(self, key: Key, bulk: bool = False) -> None:
        if key in self.running:
            self.again[key] = self.again.get(key, True) and bulk
        else:
            self.owed[key] = self.owed.get(key, True) and bulk

    @rule(key=KEYS, bulk=st.booleans())
    def add(self, key: Key, bulk: bool) -> None:
        self.queue.add(key, bulk=bulk)
        self.owe(key, bulk)

    @rule(key=KEYS, seconds=SECONDS)
    def add_after(self, key: Key, seconds: float) -> None:
        self.queue.add_after(key, seconds)
        self.delays[key] = min(self.delays.get(key, 1e99), self.time + seconds)

    @rule(key=KEYS, seconds=SECONDS)
    def add_at(self, key: Key, seconds: float) -> None:
        self.queue.add_at(key, self.wall + seconds)
        self.moments[key] = min(self.moments.get(key, 1e99), self.wall + seconds)

    @rule(key=KEYS)
    def retry(self, key: Key) -> None:
        failures = self.failures[key] = self.failures.get(key, 0) + 1
        delay = self.queue.retry(key)
        assert delay == min(30.0, 2.0**failures)
        self.delays[key] = min(self.delays.get(key, 1e99), self.time + delay)

    @rule(key=KEYS)
    def forget(self, key: Key) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.time += seconds
        self.wall += seconds
        self.fall_due()

    @rule(seconds=st.integers(-100, 100).map(float))
    def wall_clock_steps(self, seconds: float) -> None:
        self.wall += seconds
        self.fall_due()

    def fall_due(self) -> None:
        """Also tell the queue, as its timer would (there is no event loop here)."""
        self.queue.advance()
        for times, now in ((self.delays, self.time), (self.moments, self.wall)):
            for key in [key for key, due in times.items() if due <= now]:
                del times[key]
                self.owe(key)

    @rule()
    def take(self) -> None:
        key = self.queue.take()
        if key is None:
            assert not self.owed
            return
        assert key not in self.running, "a key is worked on twice at once"
        assert key in self.owed, "a key that nobody asked for, or too early"
        bulk = self.owed.pop(key)
        if bulk:
            assert self.passed_over >= BULK_TURN - 1 or all(self.owed.values())
            self.passed_over = 0
        elif any(self.owed.values()):
            self.passed_over += 1
            assert self.passed_over < BULK_TURN, "the bulk lane starves"
        else:
            self.passed_over = 0
        self.running.add(key)
        self.delays.pop(key, None)
        self.moments.pop(key, None)

    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        if self.running:
            key = data.draw(st.sampled_from(sorted(self.running)))
            self.running.remove(key)
            self.queue.done(key)
            if key in self.again:
                self.owe(key, self.again.pop(key))

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "queue"):
            assert len(self.queue) == len(self.owed)
            assert self.queue.working == len(self.running)
            assert self.queue.delayed == len(self.delays.keys() | self.moments.keys())
            due = self.queue.next_due()
            if self.delays:
                assert due is not None
                assert due <= min(self.delays.values()) - self.time
            if self.moments:
                assert due is not None
                assert due <= 1.0, "a stepped wall clock would go unnoticed"

    def teardown(self) -> None:
        """Nothing that was owed is lost."""
        for key in list(self.running):
            self.queue.done(key)
        expected = set(self.owed) | set(self.again)
        handed_out = set()
        while (key := self.queue.take()) is not None:
            assert key not in handed_out
            handed_out.add(key)
        assert handed_out == expected


TestQueue = QueueModel.TestCase
TestQueue.settings = settings(max_examples=100, stateful_step_count=50)
