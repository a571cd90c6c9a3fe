"""Runs one controller: its queue, the changes that fill it, and the workers that empty it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from edgewise.kube.errors import KubeError
from edgewise.kube.objects import Key, Object
from edgewise.kube.unreadable import Unreadable
from edgewise.runtime.api import Api
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.controller import Controller, check_controller
from edgewise.runtime.events import EventRecorder
from edgewise.runtime.metrics import Metrics, QueueMetrics
from edgewise.runtime.queue import QueueClosed, WorkQueue
from edgewise.runtime.reconciling import CURRENT, Reconciling
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.retry import ReconcileError, When, retry_for
from edgewise.runtime.unreadable_neighbours import HeldBack, UnreadableNeighbours
from edgewise.runtime.watches import CacheView, Watch, itself

# "Try again now" is believed so often in a row; then it is given time.
PATIENCE = 3


class ControllerWorkers:
    def __init__(
        self,
        controller: Controller[Any],
        caches: SharedCaches,
        api: Api,
        events: EventRecorder,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        random: Random | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        check_controller(controller)
        self.controller = controller
        self.name = controller.name
        self._api = api
        self._monotonic = monotonic
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting = False
        random = random or Random()
        metrics = metrics or Metrics()

        watches = (itself(controller.kind, controller.selection), *controller.watches)
        held: dict[type[Object], Cache[Any]] = {}
        for watch in watches:
            # Of several watches of a kind the first is the one that `cache[Kind]` names.
            held.setdefault(watch.kind, caches.of(watch.kind, watch.selection))
        controller.cache = CacheView(self.name, held)
        controller.api = api
        controller.events = events
        controller.clock = clock
        controller.random = random
        controller.log = self._log = logging.getLogger(f"edgewise.controller.{self.name}")

        self.queue: WorkQueue[Key] = WorkQueue(
            backoff=controller.backoff,
            clock=clock,
            monotonic=monotonic,
            chance=random.random,
            observer=QueueMetrics(metrics, self.name),
        )
        controller.wake = self.queue.add
        # Before our own subscriptions: who is woken by a change finds it in the indexes.
        controller.start(controller.cache)
        metrics.queue_depth.labels(self.name).set_function(lambda: len(self.queue))
        metrics.queue_delayed.labels(self.name).set_function(lambda: self.queue.delayed)
        metrics.working.labels(self.name).set_function(lambda: self.queue.working)
        self._took = metrics.reconcile_seconds.labels(self.name).observe
        self._outcomes = {
            outcome: metrics.reconciles.labels(self.name, outcome)
            for outcome in ("done", *(when.value for when in When))
        }
        self._watched: list[tuple[Watch, Cache[Any]]] = []
        for number, watch in enumerate(watches):
            cache: Cache[Any] = caches.of(watch.kind, watch.selection)
            self._watched.append((watch, cache))
            cache.subscribe(partial(self._changed, watch, number == 0))
        self._unreadable = UnreadableNeighbours(controller, self._watched)
        for _, cache in self._watched:
            cache.on_left_out(self._readability_changed)

    # What fills the queue -----------------------------------------------------------

    def _changed(
        self, watch: Watch, own: bool, old: Object | None, new: Object | None, bulk: bool
    ) -> None:
        if not self._accepting:
            return  # somebody else acts; should it be our turn, everything is looked at
        if own and not self.controller.wakes_on_status and _only_status(old, new):
            return
        # Whoever was concerned before is concerned by the change too.
        for obj in (old, new):
            if obj is not None:
                self._add_concerned(watch, obj, bulk=bulk)

    def add_all(self) -> None:
        """Everybody is due whom any object concerns, as after a start, and who changes later."""
        self._accepting = True
        for watch, cache in self._watched:
            for obj in cache:
                self._add_concerned(watch, obj, bulk=True)
        for key in self._watched[0][1].left_out:
            self.queue.add(key, bulk=True)

    def _add_concerned(self, watch: Watch, obj: Object, *, bulk: bool) -> None:
        try:
            for key in watch.route(obj, self.controller.kind.KIND, self.controller.cache):
                if not isinstance(key, Key):
                    raise TypeError(f"{key!r} is not a Key: name objects as Key(namespace, name)")
                self.queue.add(key, bulk=bulk)
        except Exception:
            # A mapping that fails on one object must not hide the others, now or at the start.
            self._log.exception(
                "%s cannot tell whom %s %s concerns, and wakes nobody for it",
                self.name,
                watch.kind.KIND.kind,
                obj.key,
            )

    def _readability_changed(self, unreadable: Unreadable) -> None:
        """Rare enough to look at all: who had to wait goes on, and who has to is told why."""
        if self._accepting:
            self.queue.add(unreadable.key, bulk=True)  # who may be gone now
            self.add_all()

    # What empties it ----------------------------------------------------------------

    def start(self) -> None:
        self.queue.open()
        for number in range(self.controller.workers):
            task = asyncio.create_task(self._work(), name=f"{self.name} {number}")
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def drain(self, grace: float) -> None:
        """Take no more keys, and let running reconciles finish within `grace` seconds."""
        self.queue.close()
        if self._tasks and grace > 0:
            await asyncio.wait(self._tasks, timeout=grace)
        await self.stop()

    async def stop(self) -> None:
        """End running reconciles now; returns when none runs any more."""
        self._accepting = False
        self.queue.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def alive(self) -> bool:
        """Whether all workers that were started still work."""
        return len(self._tasks) == self.controller.workers

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("a worker of %s died", self.name, exc_info=error)

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                await self._pass(key)
            except Exception:
                # Even the error of a controller may be one that nothing can be made of.
                self._log.exception("%s: failed in a way that cannot be told", key)
                self.queue.retry(key)
            finally:
                self.queue.done(key)

    async def _pass(self, key: Key) -> None:
        started = self._monotonic()
        reconciling = Reconciling(self.name, key)
        token = CURRENT.set(reconciling)
        try:
            if (waits_for := self._unreadable.holding(key)) is not None:
                self._hold(key, waits_for)
                return
            async with asyncio.timeout(self.controller.timeout):
                await self._api.settle(reconciling)
                answer = await self.controller.reconcile_key(key)
            self._succeeded(key, answer)
            self._api.settled(reconciling)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                # Nobody may take this key for done, should there be a next time.
                self.queue.add(key)
                raise
            # Not we were cancelled, but something that the reconcile waited for.
            self._failed(key, ReconcileError("what it waited for was cancelled"))
        except Exception as error:
            self._failed(key, error)
        finally:
            CURRENT.reset(token)
            self._took(self._monotonic() - started)

    def _hold(self, key: Key, waits_for: HeldBack) -> None:
        """Whatever was decided without it would be decided as if it were not there."""
        self._outcomes[When.CHANGE.value].inc()
        self.queue.forget(key)
        self.controller.events.warning(waits_for.regarding, "Unreadable", waits_for.sentence)
        self._log.info("%s waits: %s", key, waits_for.sentence)

    def _succeeded(self, key: Key, answer: Any) -> None:
        if not _can_be_followed(answer):
            raise ReconcileError(
                f"reconcile of {self.name} returned {answer!r}: return a Requeue or None"
            )
        self.queue.forget(key)
        self._outcomes["done"].inc()
        if answer is None:
            return
        if answer.delay is not None:
            self.queue.add_after(key, answer.delay)
        if answer.moment is not None:
            self.queue.add_at(key, answer.moment)

    def _failed(self, key: Key, error: Exception) -> None:
        policy = retry_for(error)
        self._outcomes[policy.when.value].inc()
        match policy.when:
            case When.CHANGE:
                self.queue.forget(key)
                next_time = "when it changes"
            case When.AFTER:
                next_time = f"in {_duration(self.queue.retry(key, after=policy.seconds))}"
            case When.NOW if self.queue.failures(key) < PATIENCE:
                self.queue.retry(key, after=0.0)
                next_time = "now"
            case _:
                next_time = f"in {_duration(self.queue.retry(key))}"
        expected = isinstance(error, KubeError | ReconcileError | TimeoutError)
        self._log.log(
            logging.INFO if policy.when is When.NOW else logging.WARNING,
            "%s: %s; trying again %s",
            key,
            _told(error),
            next_time,
            exc_info=None if expected else error,
        )


def _told(error: Exception) -> str:
    """Its text, with its type unless the text was written to be read alone."""
    text, kind = str(error), type(error).__name__
    if text and isinstance(error, KubeError | ReconcileError):
        return text
    return f"{kind}: {text}" if text else kind


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _can_be_followed(answer: Any) -> bool:
    """Whether a controller answered what its type promises; nobody has checked that before."""
    if answer is None:
        return True
    return isinstance(answer, Requeue) and all(
        isinstance(when, int | float | None) for when in (answer.delay, answer.moment)
    )


def _only_status(old: Object | None, new: Object | None) -> bool:
    """Whether neither spec nor metadata (that anybody acts on) differ."""
    if old is None or new is None:
        return False
    before, after = old.metadata, new.metadata
    return (
        before.generation == after.generation
        and before.deletion_timestamp == after.deletion_timestamp
        and before.labels == after.labels
        and before.annotations == after.annotations
        and before.finalizers == after.finalizers
        and before.owner_references == after.owner_references
        # A kind without generations says nothing about what changed.
        and after.generation > 0
    )
