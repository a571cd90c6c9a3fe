"""Measures a service as its user, and reports each pod's median of T_O.

async with Edgewise(url, token) as edgewise:

    async def key() -> ReportKey:
        return await edgewise.report_key("rome", "default", "web", "ann")

    await Reporter(key, "http://web.example.org/").run()
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from statistics import median
from urllib.parse import urlsplit

from edgewise.client.errors import ApiError, EdgewiseError, Unreachable
from edgewise.client.placement.keys import ReportKey, sign
from edgewise.client.placement.sampling import Sample, sample
from edgewise.client.probe import Target, measure

# Samples in one time of observation, so that every pod behind a Service is met: so many at least,
# and with many pods so many of each, up to a limit.
SAMPLES = 10
SAMPLES_OF_A_POD = 5
MOST_SAMPLES = 50
# With so many answers T_O counts from the first question, otherwise from its answer: to a pod that
# is far the answer takes two round trips, in which others were asked already.
ENOUGH_SAMPLES = 3
# So many for a while after a pod was met for the first time: others may have come with it.
EAGER_SAMPLES = 30
# Reports a second that the other side takes from one client, and how many may be sent at once.
RATE = 10.0
BURST = 10.0
RETRY_SECONDS = 1.0
MOST_PODS = 256
# Times the observation: a pod that does not answer for so long is not known any more.
UNMET_AFTER = 10
# Of one pod in one time of observation; more say nothing new.
MOST_NOTED = 1000

Send = Callable[[bytes], Awaitable[None]]
Sender = Callable[[ReportKey], contextlib.AbstractAsyncContextManager[Send]]


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextlib.asynccontextmanager
async def mqtt_sender(key: ReportKey) -> AsyncIterator[Send]:
    """Publishes to the broker that the key names; needs edgewise[mqtt]."""
    try:
        import aiomqtt  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise EdgewiseError("reports over MQTT need the package aiomqtt: edgewise[mqtt]") from None
    parts = urlsplit(key.broker)
    if not parts.hostname:
        raise EdgewiseError("the key names no broker: report over HTTP with `http_sender`")
    tls = parts.scheme == "mqtts"
    try:
        async with aiomqtt.Client(
            parts.hostname,
            parts.port or (8883 if tls else 1883),
            username=parts.username,
            password=parts.password,
            tls_params=aiomqtt.TLSParameters() if tls else None,
            timeout=5,
        ) as client:

            async def send(report: bytes) -> None:
                try:
                    await client.publish(key.topic, report)
                except aiomqtt.MqttError as error:
                    raise Unreachable(f"the broker does not answer: {error}") from error

            yield send
    except aiomqtt.MqttError as error:
        raise Unreachable(f"the broker does not answer: {error}") from error


def http_sender(post: Callable[[list[str]], Awaitable[None]]) -> Sender:
    """Sends through the server, for an application that reports for its clients."""

    @contextlib.asynccontextmanager
    async def sender(_: ReportKey) -> AsyncIterator[Send]:
        async def send(report: bytes) -> None:
            await post([report.decode()])

        yield send

    return sender


class Reporter:
    """`key` gets a new report key each time the old one is half over."""

    def __init__(
        self,
        key: Callable[[], Awaitable[ReportKey]],
        url: str,
        *,
        sender: Sender = mqtt_sender,
        app: str = "",
        through_proxy: bool = False,
        measure_once: Callable[[str], Awaitable[Sample]] | None = None,
    ) -> None:
        self._fetch = key
        self._url = url
        self._sender = sender
        self._app = app
        self._through_proxy = through_proxy
        self._measure = measure_once or self._sample
        self._samples: dict[str, list[float]] = {}
        self._first: dict[str, tuple[float, float]] = {}  # when it was asked, and answered
        self._met: dict[str, float] = {}  # when each pod last answered
        self._reported: dict[str, float] = {}  # when each was last reported
        self._new_at = -math.inf  # when one was met that was not known
        self._sending = asyncio.Lock()
        self._tokens = BURST
        self._filled = time.monotonic()
        self.sent = 0
        self.failed = 0

    async def run(self) -> None:
        """Until cancelled. What fails is tried again."""
        while True:
            try:
                key = await self._fetch()
                lasts = max(5.0, (key.expires - time.time()) / 2)
                async with asyncio.timeout(lasts), self._sender(key) as send:
                    await self._reporting(key, send)
            except TimeoutError:
                continue  # the key is half over
            except (ApiError, Unreachable):
                if _cancelled():
                    # A connection that fails while it is closed would hide that we are to end.
                    raise asyncio.CancelledError from None
                self.failed += 1
                await asyncio.sleep(RETRY_SECONDS)

    def note(self, pod: str, rtt_ms: float, *, asked: float | None = None) -> None:
        """For a program that measures by itself: one round trip to a pod.

        `asked` is when it began, by the monotonic clock.
        """
        if pod not in self._samples and len(self._samples) >= MOST_PODS:
            return
        now = time.monotonic()
        if pod not in self._first:
            # What was asked in the time that was reported already is not counted twice.
            begun = max(now if asked is None else asked, self._reported.get(pod, -math.inf))
            self._first[pod] = (begun, now)
        if pod not in self._met:
            self._new_at = now
        self._met[pod] = now
        noted = self._samples.setdefault(pod, [])
        if len(noted) < MOST_NOTED:
            noted.append(rtt_ms)

    async def _reporting(self, key: ReportKey, send: Send) -> None:
        try:
            await self._report(key, send)
        except ExceptionGroup as group:
            failed, unknown = group.split((ApiError, Unreachable))
            if failed is None or unknown is not None:
                raise
            raise Unreachable(str(failed.exceptions[0])) from group

    async def _report(self, key: ReportKey, send: Send) -> None:
        async with asyncio.TaskGroup() as tasks:
            if self._url:
                tasks.create_task(self._sample_all(key))
            if key.mode == "Probe" and key.nodes:
                tasks.create_task(self._probe_all(key, send))
            while True:
                await asyncio.sleep(self._until_due(key.observation))
                await self._send_medians(key, send)

    def _until_due(self, observation: float) -> float:
        """Until the first pod was observed for long enough; answers that come may bring it near."""
        now = time.monotonic()
        due = (self._due(pod, observation) - now for pod in self._first)
        return max(0.001, min([*due, observation / 10]))

    def _due(self, pod: str, observation: float) -> float:
        asked, answered = self._first[pod]
        enough = len(self._samples.get(pod, ())) >= ENOUGH_SAMPLES
        return (asked if enough else answered) + observation

    async def _sample_all(self, key: ReportKey) -> None:
        """At an even pace, each beside the others: a far pod shall not hold up the near ones."""
        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                if len(running) < 10 * MOST_SAMPLES:
                    task = asyncio.create_task(self._one())
                    running.add(task)
                    task.add_done_callback(running.discard)
                await asyncio.sleep(key.observation / self._pace(key.observation))
        finally:
            for task in running:
                task.cancel()

    def _pace(self, observation: float) -> int:
        """Samples in one time of observation."""
        wanted = max(SAMPLES, SAMPLES_OF_A_POD * len(self._samples))
        if time.monotonic() < self._new_at + observation / 2:
            wanted = max(wanted, EAGER_SAMPLES)
        return min(wanted, MOST_SAMPLES)

    async def _one(self) -> None:
        asked = time.monotonic()
        try:
            found = await self._measure(self._url)
        except EdgewiseError:
            self.failed += 1
            return
        if found.pod:
            self.note(found.pod, found.rtt_ms, asked=asked)

    async def _sample(self, url: str) -> Sample:
        return await sample(url, through_proxy=self._through_proxy)

    async def _send_medians(self, key: ReportKey, send: Send) -> None:
        """A median, because one late answer says something of this machine, not of the way."""
        now = time.monotonic()
        unmet = now - UNMET_AFTER * key.observation
        self._met = {pod: at for pod, at in self._met.items() if at >= unmet}
        self._reported = {pod: at for pod, at in self._reported.items() if pod in self._met}
        for pod, values in list(self._samples.items()):
            if now < self._due(pod, key.observation):
                continue
            del self._samples[pod]
            del self._first[pod]
            self._reported[pod] = now
            await self._send(sign(key, median(values), pod=pod, app=self._app), send)

    async def _probe_all(self, key: ReportKey, send: Send) -> None:
        targets = [Target(name=each.node, udp=each.ping) for each in key.nodes]
        while True:
            began = time.monotonic()
            found = await measure(targets, deadline=max(0.2, key.observation))
            for node, each in found.items():
                if each.median_ms is not None:
                    await self._send(sign(key, each.median_ms, node=node, app=self._app), send)
            await asyncio.sleep(max(0.0, began + key.observation - time.monotonic()))

    async def _send(self, report: bytes, send: Send) -> None:
        """Never faster than is taken."""
        async with self._sending:
            self._fill()
            if self._tokens < 1:
                await asyncio.sleep((1 - self._tokens) / RATE)
                self._fill()
            self._tokens -= 1
            await send(report)
        self.sent += 1

    def _fill(self) -> None:
        now = time.monotonic()
        self._tokens = min(BURST, self._tokens + (now - self._filled) * RATE)
        self._filled = now
