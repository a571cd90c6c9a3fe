"""Runs controllers together: shared caches, one leader, and an orderly end.

async with Client(load_access()) as client:
    await Manager(client, [SessionController(), TemplateController()]).run()
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError
from edgewise.kube.objects import Object
from edgewise.runtime.api import Api
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.caching.reflector import IDLE_TIMEOUT, PAGE
from edgewise.runtime.caching.shared_caches import SharedCaches, Trim
from edgewise.runtime.connected_cluster import ConnectedCluster
from edgewise.runtime.controller import Controller
from edgewise.runtime.controller_workers import ControllerWorkers
from edgewise.runtime.events import EventRecorder
from edgewise.runtime.health_server import Check, Handler, HealthServer
from edgewise.runtime.leading.leadership import Leadership, Timing, unique_identity
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.tasks import Task, Tasks

# A cache that has heard nothing for so long, bookmarks included, is not to be trusted.
STALE_AFTER = 300.0

_log = logging.getLogger(__name__)


class Election(msgspec.Struct, frozen=True):
    """The Lease that decides which of several managers acts."""

    name: str
    namespace: str
    timing: Timing = Timing()
    identity: str = ""


class Listen(msgspec.Struct, frozen=True):
    """Where health, readiness and metrics are served."""

    host: str = "127.0.0.1"
    port: int = 8080


class Manager:
    def __init__(
        self,
        client: Client,
        controllers: Iterable[Controller[Any]],
        *,
        name: str = "edgewise",
        namespace: str | None = None,
        election: Election | None = None,
        listen: Listen | None = None,
        trims: Mapping[type[Object], Trim] | None = None,
        grace: float = 20.0,
        page: int = PAGE,
        idle_timeout: float = IDLE_TIMEOUT,
        watch_backoff: Backoff | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        random: Random | None = None,
        metrics: Metrics | None = None,
        caches: SharedCaches | None = None,
        leader_tasks: Sequence[Task] = (),
        replica_tasks: Sequence[Task] = (),
        handlers: Sequence[Handler] = (),
        ready: Mapping[str, Check] | None = None,
    ) -> None:
        """Without `election` this manager acts as if it were the only one.

        With `namespace` it looks at that one only. `trims` shrink the objects of a kind
        before they are cached; `grace` is how long running reconciles may take to finish.
        `caches` are some that others use as well: how they are kept is decided already. Tasks
        of the leader run while the controllers do, those of a replica from the beginning;
        `handlers` and the checks in `ready` are for the listener.
        """
        random = random or Random()
        self.metrics = metrics or Metrics()
        identity = (election.identity if election else "") or unique_identity()
        self.leadership: Leadership | None = None
        if election:
            self.leadership = Leadership(
                client,
                election.name,
                election.namespace,
                identity=identity,
                timing=election.timing,
                clock=clock,
                chance=random.random,
            )
        self.caches = caches or SharedCaches(
            client,
            namespace=namespace,
            trims=trims,
            page=page,
            idle_timeout=idle_timeout,
            backoff=watch_backoff,
            chance=random.random,
            monotonic=monotonic,
            metrics=self.metrics,
        )
        self.cluster = ConnectedCluster(
            "the cluster",
            client,
            caches=self.caches,
            probing=False,
            monotonic=monotonic,
            clock=clock,
        )
        permit = self.leadership.permit if self.leadership else _always
        self.api = Api(
            client,
            self.caches,
            permit=permit,
            random=random,
            monotonic=monotonic,
            metrics=self.metrics,
        )
        self.events = EventRecorder(
            client,
            controller=name,
            instance=identity,
            clock=clock,
            monotonic=monotonic,
            metrics=self.metrics,
        )
        self.workers = [
            ControllerWorkers(
                controller,
                self.caches,
                self.api,
                self.events,
                clock=clock,
                monotonic=monotonic,
                random=random,
                metrics=self.metrics,
            )
            for controller in controllers
        ]
        self._leader_tasks = Tasks(tuple(leader_tasks))
        self._replica_tasks = Tasks(tuple(replica_tasks))
        self.metrics.leading.set_function(lambda: self._acting)
        self.health: HealthServer | None = None
        if listen:
            self.health = HealthServer(
                self.metrics,
                host=listen.host,
                port=listen.port,
                healthy={"workers": self._dead_workers, "caches": self._stale_caches},
                ready={"caches": self._unsynced_caches, **(ready or {})},
                handlers=handlers,
            )
        self._grace = grace
        self._random = random
        self._acting = False
        self._stop = asyncio.Event()

    async def run(self, *, signals: bool = True) -> None:
        """Run until `stop` is called or, with `signals`, SIGINT or SIGTERM arrives.

        Everything ends in order: no new keys, running reconciles finish, the Lease is
        handed over, the last events are told.
        """
        async with contextlib.AsyncExitStack() as stack:
            if signals:
                stack.enter_context(on_signals(self.stop))
            if self.health:
                await stack.enter_async_context(self.health.running())
            await stack.enter_async_context(_background(self.cluster.run()))
            await stack.enter_async_context(_background(self.events.run()))
            self._replica_tasks.start()
            stack.push_async_callback(self._replica_tasks.stop)
            if await self._unless_stopped(self.caches.wait_synced()):
                await self._lead_until_stopped()
        await self.events.flush()

    def stop(self) -> None:
        """Ask for an orderly end; `run` returns when it is done."""
        self._stop.set()

    @property
    def acting(self) -> bool:
        """Whether the controllers of this manager run now."""
        return self._acting

    # Leading ------------------------------------------------------------------------

    async def _lead_until_stopped(self) -> None:
        try:
            if self.leadership is None:
                self._start()
                await self._stop.wait()
                await self._drain()
            else:
                await self._lead_by_turns(self.leadership)
        finally:
            # If we are cancelled, too: nobody may act on caches that nobody keeps any more.
            await self._end()

    async def _lead_by_turns(self, leadership: Leadership) -> None:
        while await self._unless_stopped(leadership.acquire()):
            async with _background(leadership.hold()) as holding:
                caught_up = await self._first_of(holding, self._unless_stopped(self._catch_up()))
                if caught_up and not self._stop.is_set():
                    self._start()
                    await self._first_of(holding, self._stop.wait())
                if leadership.leading:
                    await self._first_of(holding, self._drain())
                # After this nothing of ours acts, so that another one may.
                await self._end()
            await self._hand_over(leadership)
            if self._stop.is_set():
                return

    async def _hand_over(self, leadership: Leadership) -> None:
        """At once, unless a write of ours may still be carried out behind our successor's back."""
        if self.api.quiet_for < leadership.timing.lease:
            _log.warning("a write got no answer, so nobody takes over before the Lease expires")
            await leadership.abandon()
        else:
            await leadership.release()

    async def _catch_up(self) -> None:
        """See everything that the leader before us wrote."""
        backoff, failures = Backoff(first=0.1, most=2.0), 0
        while True:
            try:
                await self.caches.refresh()
            except* KubeError as group:
                failures += 1
                _log.warning("cannot refresh the caches: %s", group.exceptions[0])
                await asyncio.sleep(backoff.delay(failures, self._random.random))
            else:
                return

    def _start(self) -> None:
        for workers in self.workers:
            workers.add_all()
            workers.start()
        self._leader_tasks.start()
        self._acting = True

    async def _drain(self) -> None:
        await self._leader_tasks.stop()
        await asyncio.gather(*(workers.drain(self._grace) for workers in self.workers))
        self._acting = False

    async def _end(self) -> None:
        await asyncio.gather(
            self._leader_tasks.stop(), *(workers.stop() for workers in self.workers)
        )
        self._acting = False

    async def _unless_stopped(self, work: Any) -> bool:
        """Whether `work` was done before somebody asked us to stop."""
        async with _background(self._stop.wait()) as stopping:
            return await self._first_of(stopping, work)

    async def _first_of(self, watched: asyncio.Task[Any], work: Any) -> bool:
        """Do `work`, but give it up when `watched` ends; whether it was done."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, watched), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
                return True
            return False
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))

    # Health -------------------------------------------------------------------------

    def _dead_workers(self) -> str:
        if not self._acting or self._stop.is_set():
            return ""
        return ", ".join(f"{each.name} lost a worker" for each in self.workers if not each.alive)

    def _stale_caches(self) -> str:
        stale = [name for name, age in self.caches.ages().items() if STALE_AFTER < age < 1e9]
        troubles = self.caches.troubles()
        return "; ".join(f"{name} heard nothing: {troubles.get(name, '')}" for name in stale)

    def _unsynced_caches(self) -> str:
        if self.caches.synced:
            return ""
        troubles = [f"{name}: {text}" for name, text in self.caches.troubles().items()]
        return "; ".join(troubles) or "not synced yet"


def _always() -> None:
    """Nobody else acts."""


@contextlib.asynccontextmanager
async def _background(work: Any) -> AsyncIterator[asyncio.Task[Any]]:
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a background task failed", exc_info=error)


@contextlib.contextmanager
def on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Have SIGINT and SIGTERM call `stop`, for as long as the block runs."""
    loop = asyncio.get_running_loop()
    caught = (signal.SIGINT, signal.SIGTERM)
    for number in caught:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
