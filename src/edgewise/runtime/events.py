"""Tells people what happened to an object, as `kubectl describe` shows it.

Telling never holds up a reconcile: events are noted here and sent in the background. The
same thing said again becomes a count on the first event, and an object that has too much to
say is cut off for a while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError, KubeError, NotFound, TooManyRequests, Unreachable
from edgewise.kube.kinds.events import Event, EventSeries, ObjectReference
from edgewise.kube.objects import Object, ObjectMeta
from edgewise.runtime.conditions import microtimestamp
from edgewise.runtime.metrics import Metrics

# For each object: so many new events at once, and then one more in so many seconds.
BURST = 25
REFILL_SECONDS = 10.0
# A count is sent on at most this often.
SERIES_SECONDS = 30.0
REMEMBERED = 2048
MOST_WAITING = 1024
ATTEMPTS = 3

_log = logging.getLogger(__name__)


class _Bucket(msgspec.Struct):
    tokens: float
    filled: float


class _Said(msgspec.Struct):
    """One thing that was said, and how often."""

    event: Event
    count: int = 1
    sent_count: int = 0
    sent_at: float = 0.0
    last_time: float = 0.0
    waiting: bool = False


class EventRecorder:
    """`normal` and `warning` from anywhere; `run` sends, until cancelled."""

    def __init__(
        self,
        client: Client,
        *,
        controller: str = "edgewise",
        instance: str = "edgewise",
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        # A name that the API server does not find qualified is refused.
        self._controller = controller if "/" in controller else f"edgewise.dev/{controller}"
        self._instance = instance[:128]
        self._clock = clock
        self._monotonic = monotonic
        self._metrics = metrics or Metrics()
        self._said: OrderedDict[tuple[str, ...], _Said] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._waiting: asyncio.Queue[_Said] = asyncio.Queue()
        self._sequence = 0

    def normal(
        self, regarding: Object, reason: str, note: str, *, action: str = "Reconcile"
    ) -> None:
        self._note(regarding, "Normal", reason, note, action)

    def warning(
        self, regarding: Object, reason: str, note: str, *, action: str = "Reconcile"
    ) -> None:
        self._note(regarding, "Warning", reason, note, action)

    async def run(self) -> None:
        """Send what was noted, and from time to time the counts that grew."""
        sweep = self._monotonic() + SERIES_SECONDS
        while True:
            if self._monotonic() >= sweep:
                self._queue_grown_series(SERIES_SECONDS)
                sweep = self._monotonic() + SERIES_SECONDS
            try:
                async with asyncio.timeout(sweep - self._monotonic()):
                    said = await self._waiting.get()
            except TimeoutError:
                continue
            try:
                await self._send(said)
            except Exception:
                # Telling is not worth dying for.
                _log.exception("an event could not be sent")

    async def flush(self, timeout: float = 5.0) -> None:
        """Send what is left, within a time; for the end of a program."""
        self._queue_grown_series(0.0)
        try:
            async with asyncio.timeout(timeout):
                while not self._waiting.empty():
                    await self._send(self._waiting.get_nowait())
        except TimeoutError:
            self._drop("shutdown", self._waiting.qsize())

    # Inside -------------------------------------------------------------------------

    def _note(self, obj: Object, type_: str, reason: str, note: str, action: str) -> None:
        meta = obj.metadata
        same = (meta.uid, type_, reason, note, action)
        said = self._said.get(same)
        now = self._clock()
        if said is not None:
            self._said.move_to_end(same)
            said.count += 1
            said.last_time = now
            return
        if not self._allowed(meta.uid):
            self._drop("rate limit")
            return
        if self._waiting.qsize() >= MOST_WAITING:
            self._drop("too many waiting")
            return
        event = self._event(obj, now)
        event.type, event.reason, event.note = type_, reason[:128], note[:1024]
        event.action = action[:128]
        said = _Said(event=event, last_time=now)
        self._said[same] = said
        while len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        self._queue(said)

    def _event(self, obj: Object, now: float) -> Event:
        meta = obj.metadata
        self._sequence += 1
        return Event(
            api_version=Event.KIND.api_version,
            kind=Event.KIND.kind,
            metadata=ObjectMeta(
                name=f"{meta.name[:200]}.{int(now * 1e6):x}{self._sequence:x}",
                namespace=meta.namespace or "default",
            ),
            event_time=microtimestamp(now),
            reporting_controller=self._controller,
            reporting_instance=self._instance,
            regarding=ObjectReference(
                api_version=obj.KIND.api_version,
                kind=obj.KIND.kind,
                name=meta.name,
                namespace=meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version,
            ),
        )

    def _allowed(self, uid: str) -> bool:
        now = self._monotonic()
        bucket = self._buckets.get(uid)
        if bucket is None:
            bucket = self._buckets[uid] = _Bucket(tokens=BURST, filled=now)
            while len(self._buckets) > REMEMBERED:
                self._buckets.popitem(last=False)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.filled) / REFILL_SECONDS)
        bucket.filled = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _queue(self, said: _Said) -> None:
        if not said.waiting:
            said.waiting = True
            self._waiting.put_nowait(said)

    def _queue_grown_series(self, older_than: float) -> None:
        now = self._monotonic()
        for said in self._said.values():
            if said.count > said.sent_count and now - said.sent_at >= older_than:
                self._queue(said)

    async def _send(self, said: _Said) -> None:
        said.waiting = False
        count = said.count
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._send_once(said, count)
            except (Unreachable, TooManyRequests) as error:
                delay = getattr(error, "retry_after", None) or 0.2 * attempt
                if attempt < ATTEMPTS:
                    await asyncio.sleep(min(delay, 2.0))
            except KubeError as error:
                _log.debug("event refused: %s", error)
                self._drop(f"HTTP {error.status}" if isinstance(error, ApiError) else "error")
                break
            else:
                said.sent_count, said.sent_at = count, self._monotonic()
                return
        else:
            self._drop("unreachable")
        # Not to be tried again for each repetition.
        said.sent_count, said.sent_at = count, self._monotonic()

    async def _send_once(self, said: _Said, count: int) -> None:
        event = said.event
        if count > 1:
            event.series = EventSeries(
                count=count, last_observed_time=microtimestamp(said.last_time)
            )
        if said.sent_count == 0:
            await self._create(event)
            return
        meta = event.metadata
        try:
            await self._client.patch(
                Event, meta.name, meta.namespace, body={"series": msgspec.to_builtins(event.series)}
            )
        except NotFound:
            await self._create(event)  # it expired at the API server
        else:
            self._metrics.request("patch", Event.KIND.kind, 200)

    async def _create(self, event: Event) -> None:
        await self._client.create(event)
        self._metrics.request("create", Event.KIND.kind, 200)

    def _drop(self, reason: str, count: int = 1) -> None:
        self._metrics.events_dropped.labels(reason).inc(count)
