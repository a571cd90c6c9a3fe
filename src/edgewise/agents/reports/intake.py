"""Takes reports from the broker into a bounded queue, and counts them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import aiomqtt

from edgewise.placement.broker_url import BrokerUrl
from edgewise.placement.reports import LARGEST, TOPIC, Reports, Verdict

# Reports that wait to be counted; what comes beyond them is dropped, and counted as that.
MOST_WAITING = 20_000
RETRY_SECONDS = 1.0
# Reports that are looked at before anything else gets its turn.
AT_ONCE = 200

_log = logging.getLogger(__name__)


class DroppingQueue(asyncio.Queue[Any]):
    """What comes while it is full is dropped without a word: in a flood, a line in the log for
    each would be one more flood. So is what is larger than a report: a broker of others may let
    messages of many megabytes through."""

    def __init__(self, maxsize: int = 0, *, on_drop: Callable[[Verdict], None]) -> None:
        super().__init__(maxsize)
        self._on_drop = on_drop

    def put_nowait(self, item: Any) -> None:
        if self.full():
            self._on_drop(Verdict.DROPPED)
        elif _size(item) > LARGEST:
            self._on_drop(Verdict.TOO_LARGE)
        else:
            super().put_nowait(item)


def _size(message: Any) -> int:
    payload = getattr(message, "payload", b"")
    return len(payload) if isinstance(payload, bytes | bytearray) else 0


class Intake:
    def __init__(
        self,
        reports: Reports,
        broker: BrokerUrl,
        *,
        clock: Callable[[], float] = time.time,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._reports = reports
        self._broker = broker
        self._clock = clock
        self._most = most_waiting
        self._news = asyncio.Event()
        self.connected = False
        self.trouble = "the broker was not reached yet"

    async def run(self) -> None:
        """Until cancelled; a broker that goes away is waited for."""
        while True:
            try:
                await self._subscribe()
            except aiomqtt.MqttError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    # A connection that fails while it is closed would hide that we are to end.
                    raise asyncio.CancelledError from None
                words = f"the broker {self._broker!r} does not answer: {error}"
                if words != self.trouble:
                    _log.warning("%s", words)
                self.connected, self.trouble = False, words
            await asyncio.sleep(RETRY_SECONDS)

    async def _subscribe(self) -> None:
        async with aiomqtt.Client(
            **self._broker.client_options(),
            timeout=5,
            max_queued_incoming_messages=self._most,
            queue_type=partial(DroppingQueue, on_drop=self._drop),  # type: ignore[arg-type]
        ) as client:
            await client.subscribe(f"{TOPIC}/#")
            self.connected, self.trouble = True, ""
            _log.info("listening at %r", self._broker)
            seen = 0
            async for message in client.messages:
                self._take(str(message.topic), message.payload, retained=bool(message.retain))
                seen += 1
                if seen % AT_ONCE == 0:
                    # Who asks for the summary shall not starve under a flood.
                    await asyncio.sleep(0)

    def _drop(self, why: Verdict) -> None:
        self._reports.verdicts[why] += 1

    def _take(self, topic: str, payload: object, *, retained: bool) -> None:
        if not isinstance(payload, bytes | bytearray):
            payload = b"x" * (LARGEST + 1)
        verdict = self._reports.receive(topic, bytes(payload), retained=retained, now=self._clock())
        if verdict is Verdict.ACCEPTED:
            self._news.set()

    async def wait_for_news(self, after: int, seconds: float) -> None:
        """Return when something was counted since version `after`, or after so long."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._reports.version <= after:
            self._news.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                return
