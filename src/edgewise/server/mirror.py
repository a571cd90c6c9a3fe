"""Caches of one cluster, and whether they can be believed.

A reflector alone notices a dead connection only after a minute or more of silence. A server
that places people has to know within seconds, so the cluster is asked a small question
every second as well. When it answers again after a silence, its watches are begun anew at
once: they may hang on connections that nobody will ever close.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar, cast

import msgspec

from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError, Forbidden, KubeError, ServerError, Unauthorized
from edgewise.kube.objects import Object
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.cache import Cache
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.reflector import Reflector
from edgewise.runtime.selection import EVERYTHING, Selection

T = TypeVar("T", bound=Object)
_log = logging.getLogger(__name__)


class Health(StrEnum):
    CONNECTING = "Connecting"  # its caches were never complete
    READY = "Ready"
    SUSPECT = "Suspect"  # not answering for the moment
    LOST = "Lost"  # not answering for so long that its clients are moved


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How soon silence means something, in seconds."""

    probe_every: float = 1.0
    probe_timeout: float = 2.0
    suspect_after: float = 3.0
    lost_after: float = 15.0


# A cluster that is back has to be caught up with within seconds.
BACKOFF = Backoff(first=0.1, most=2.0)


class Mirror:
    """Ask for the caches first, then `run` it in a task; cancel the task to stop."""

    def __init__(
        self,
        name: str,
        client: Client,
        *,
        patience: Patience | None = None,
        metrics: Metrics | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.client = client
        self.health = Health.CONNECTING
        self.patience = patience or Patience()
        self._metrics = metrics or Metrics()
        self._monotonic = monotonic
        self._caches: dict[tuple[type[Object], Selection], Cache[Any]] = {}
        self._reflectors: list[Reflector[Any]] = []
        self._following: asyncio.Task[None] | None = None
        self._caught_up = False
        self._answered = monotonic()  # a new cluster gets the same patience as an old one
        self._complaint = ""
        self._listeners: list[Callable[[], None]] = []
        self._ready = asyncio.Event()

    def cache(self, kind: type[T], selection: Selection = EVERYTHING) -> Cache[T]:
        """The cache of a kind, made at the first call."""
        key = (kind, selection)
        if key not in self._caches:
            self._caches[key] = Cache(kind, selection=selection, monotonic=self._monotonic)
        return cast(Cache[T], self._caches[key])

    def on_health(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever the health has changed."""
        self._listeners.append(listener)

    @property
    def ready(self) -> bool:
        return self.health is Health.READY

    @property
    def complete(self) -> bool:
        """Whether the caches were complete once; they may be old."""
        return bool(self._caches) and all(cache.synced for cache in self._caches.values())

    @property
    def silent_for(self) -> float:
        return self._monotonic() - self._answered

    @property
    def trouble(self) -> str:
        """What is wrong, as the end of "it …"; empty if nothing is."""
        if self.health is Health.READY:
            return ""
        if self.silent_for < self.patience.suspect_after:
            return self._complaint or "is being caught up with"
        return self._complaint or f"has not answered for {self.silent_for:.0f} s"

    async def wait_ready(self) -> None:
        await self._ready.wait()

    async def run(self) -> None:
        try:
            while True:
                await self._probe()
                self._judge()
                slept = self._monotonic()
                await asyncio.sleep(self.patience.probe_every)
                # If we overslept, it was this process that was too busy to hear anything.
                overslept = self._monotonic() - slept - self.patience.probe_every
                self._answered = min(self._answered + max(0.0, overslept), self._monotonic())
        finally:
            await self._unfollow()

    # The question of every second ---------------------------------------------------

    async def _probe(self) -> None:
        kind, selection = next(iter(self._caches))
        try:
            # A list that must come from the store, and not from the API server's memory.
            await self.client.request(
                "GET",
                kind.KIND.path(selection.namespace),
                params={"limit": "1"},
                timeout=self.patience.probe_timeout,
            )
        except (Unauthorized, Forbidden) as error:
            self._complaint = f"refuses us: {error}"
        except (ApiError, KubeError) as error:
            self._complaint = ""
            _log.debug("%s does not answer: %s", self.name, error)
            if isinstance(error, ApiError) and not isinstance(error, ServerError):
                # It does answer; the watch will say what it thinks of us.
                self._complaint = f"answers with an error: {error}"
        except Exception as error:
            # A cluster that cannot even be asked is one that does not answer. The text of an
            # error that nobody thought of may hold a secret, and this one is shown.
            complaint = f"cannot be asked ({type(error).__name__}): see the server's log"
            if complaint != self._complaint:
                _log.exception("%s cannot be asked", self.name)
            self._complaint = complaint
        else:
            self._complaint = ""
            await self._heard()

    async def _heard(self) -> None:
        silence = self.silent_for
        self._answered = self._monotonic()
        broken = self._following is None or self._following.done()
        if broken or silence >= self.patience.suspect_after:
            await self._follow()

    async def _follow(self) -> None:
        """Begin all watches, or begin them anew."""
        await self._unfollow()
        self._caught_up = False
        self._reflectors = [
            Reflector(self.client, cache, backoff=BACKOFF, metrics=self._metrics)
            for cache in self._caches.values()
        ]
        self._following = asyncio.create_task(self._reflect(), name=f"mirror of {self.name}")

    async def _reflect(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.run())
            for reflector in self._reflectors:
                await reflector.wait_synced()
            self._caught_up = True
            self._judge()

    async def _unfollow(self) -> None:
        task, self._following = self._following, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the mirror of %s broke", self.name, exc_info=error)

    # What it means ------------------------------------------------------------------

    def _judge(self) -> None:
        before, self.health = self.health, self._current()
        if self.health is before:
            return
        level = logging.INFO if self.ready else logging.WARNING
        _log.log(level, "%s is %s: %s", self.name, self.health.lower(), self.trouble or "well")
        if self.ready:
            self._ready.set()
        else:
            self._ready.clear()
        for listener in self._listeners:
            listener()

    def _current(self) -> Health:
        silent = self.silent_for
        if silent >= self.patience.lost_after:
            return Health.LOST
        if silent >= self.patience.suspect_after:
            return Health.SUSPECT
        if self._caught_up:
            return Health.READY
        return Health.CONNECTING if not self.complete else Health.SUSPECT
