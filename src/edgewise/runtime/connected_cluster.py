"""A client and caches of one cluster, and whether they can be believed.

A reflector alone notices a dead connection only after a minute or more of silence. A server
that places people has to know within seconds, so the cluster is asked a small question
every second as well. When it answers again after a silence, its watches are begun anew at
once: they may hang on connections that nobody will ever close.

Caches come and go while it runs. A new one does not take anything away from a cluster that
answers; whether that one cache is complete is for its user to ask.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

import msgspec

from edgewise.kube.client import Client
from edgewise.kube.errors import (
    ApiError,
    Forbidden,
    KubeError,
    ServerError,
    TooLarge,
    Unauthorized,
)
from edgewise.kube.objects import Object
from edgewise.kube.paths import collection_path
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import EVERYTHING, Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.metrics import Metrics

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


class ConnectedCluster:
    """`run` it in a task; cancel the task to stop. Ask for caches before or meanwhile."""

    def __init__(
        self,
        name: str,
        client: Client,
        *,
        caches: SharedCaches | None = None,
        probing: bool = True,
        patience: Patience | None = None,
        metrics: Metrics | None = None,
        label: str = "",
        heaviest: Callable[[type[Object]], int] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`label` is its name in metrics; with `heaviest`, no cache of a kind holds more bytes.

        Without `probing`, its watches alone tell how it is.
        """
        self.name = name
        self.client = client
        self.health = Health.CONNECTING
        self.patience = patience or Patience()
        self.caches = caches or SharedCaches(
            client,
            backoff=BACKOFF,
            monotonic=monotonic,
            metrics=metrics,
            label=label or name,
            heaviest=heaviest,
        )
        self._probing = probing
        self._monotonic = monotonic
        self._clock = clock
        self._following: asyncio.Task[None] | None = None
        self._caught_up = False
        self._complete = False
        self._answered = monotonic()  # a new cluster gets the same patience as an old one
        self._complaint = ""
        # When it was last heard; fixed while the trouble lasts, so that what is said of it is
        # the same every time, and not news every second.
        self.since: datetime | None = self._last_heard()
        self._told: tuple[Health, str] = (self.health, self.trouble)
        self._listeners: list[Callable[[], None]] = []
        self._ready = asyncio.Event()

    def cache(self, kind: type[T], selection: Selection = EVERYTHING) -> Cache[T]:
        """The cache of a kind, made at the first call."""
        return self.caches.of(kind, selection)

    def close(self, kind: type[Object], selection: Selection = EVERYTHING) -> None:
        """Stop to keep a cache, and forget it."""
        self.caches.close(kind, selection)

    def on_health(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when the health has changed, or what is said of it; answers the end."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def ready(self) -> bool:
        return self.health is Health.READY

    @property
    def complete(self) -> bool:
        """Whether the caches were complete once; they may be old."""
        return self._complete

    @property
    def silent_for(self) -> float:
        return self._monotonic() - self._answered if self._probing else 0.0

    @property
    def trouble(self) -> str:
        """What is wrong, as the end of "it …"; empty if nothing is."""
        if self.health is Health.READY:
            return ""
        if self.silent_for < self.patience.suspect_after:
            if (error := self._too_large()) is not None:
                return f"cannot be followed: {error}"
            return self._complaint or "is being caught up with"
        return self._complaint or f"has not answered since {_in_utc(self.since)}"

    async def wait_ready(self) -> None:
        await self._ready.wait()

    async def run(self) -> None:
        if not self._probing:
            await self._reflect()
            return
        try:
            await self._probe_for_ever()
        finally:
            await self._unfollow()
            self.caches.forget_metrics()

    async def _probe_for_ever(self) -> None:
        while True:
            await self._probe()
            self._judge()
            slept = self._monotonic()
            await asyncio.sleep(self.patience.probe_every)
            # If we overslept, it was this process that was too busy to hear anything.
            overslept = self._monotonic() - slept - self.patience.probe_every
            self._answered = min(self._answered + max(0.0, overslept), self._monotonic())

    # The question of every second ---------------------------------------------------

    async def _probe(self) -> None:
        path, params = self._question()
        try:
            await self.client.request(
                "GET", path, params=params, timeout=self.patience.probe_timeout
            )
        except (Unauthorized, Forbidden) as error:
            self._complaint = f"refuses us: {error}"
        except (ApiError, KubeError) as error:
            self._complaint = ""
            _log.debug("%s does not answer: %s", self.name, error)
            if isinstance(error, TooLarge):
                self._complaint = f"cannot be followed: {error}"
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

    def _question(self) -> tuple[str, dict[str, str]]:
        """What must be answered from the store, and not from the API server's memory.

        A list tells as well whether we may still see what we follow. One that was never
        answered is no measure for a cluster that was ready without it.
        """
        caches = list(self.caches)
        asked = next((cache for cache in caches if cache.synced), None)
        if asked is None and caches and not self._caught_up:
            asked = caches[0]
        if asked is None:
            # It asks etcd, and everybody who is known to the cluster may read it.
            return "/readyz", {}
        return collection_path(asked.kind.KIND, asked.selection.namespace), {"limit": "1"}

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
        self.caches.renew()
        self._following = asyncio.create_task(self._reflect(), name=f"caches of {self.name}")

    def _too_large(self) -> TooLarge | None:
        errors = self.caches.errors()
        return next((error for error in errors if isinstance(error, TooLarge)), None)

    async def _reflect(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.caches.run())
            await self.caches.wait_synced()
            self._catch_up()

    def _catch_up(self) -> None:
        self._caught_up = self._complete = True
        self._judge()

    async def _unfollow(self) -> None:
        task, self._following = self._following, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the caches of %s broke", self.name, exc_info=error)

    # What it means ------------------------------------------------------------------

    def _judge(self) -> None:
        self.health = self._current()
        if self.health is Health.READY:
            self.since = None
        elif self.since is None:
            self.since = self._last_heard()
        told, self._told = self._told, (self.health, self.trouble)
        if self._told == told:
            return
        level = logging.INFO if self.ready else logging.WARNING
        why = f": {self.trouble}" if self.trouble else ""
        _log.log(level, "%s is %s%s", self.name, self.health.lower(), why)
        if self.ready:
            self._ready.set()
        else:
            self._ready.clear()
        for listener in list(self._listeners):
            listener()

    def _last_heard(self) -> datetime:
        return datetime.fromtimestamp(int(self._clock() - self.silent_for), UTC)

    def _current(self) -> Health:
        silent = self.silent_for
        if silent >= self.patience.lost_after:
            return Health.LOST
        if silent >= self.patience.suspect_after:
            return Health.SUSPECT
        if self._caught_up and self._too_large() is None:
            return Health.READY
        return Health.SUSPECT if self._complete else Health.CONNECTING


def _in_utc(when: datetime | None) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}" if when is not None else "it was asked first"
