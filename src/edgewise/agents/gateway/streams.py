"""All connected Envoys, and the waiting until each of them has taken a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from edgewise.agents.gateway.desired import Desired, Part
from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.agents.gateway.subscriber import Said, Subscriber


class Stream:
    """A connected Envoy."""

    def __init__(self, desired: Desired) -> None:
        self.node = ""
        self.subscriber = Subscriber(desired)
        self.wake = asyncio.Event()
        self.replaced = asyncio.Event()


class Outcome:
    """How a set of routes ended: taken by every Envoy, refused by one, or still open."""

    def __init__(self) -> None:
        self.acked: list[str] = []
        self.rejected: dict[str, str] = {}
        self.pending: list[str] = []


class Streams:
    """SessionWriter changes to every Envoy and tells when all have acknowledged them."""

    def __init__(
        self, desired: Desired, metrics: GatewayMetrics, clock: Callable[[], float]
    ) -> None:
        self._desired = desired
        self._metrics = metrics
        self._clock = clock
        self._streams: list[Stream] = []
        self._news: dict[Part, list[asyncio.Event]] = {}
        self._changed_at: dict[Part, float] = {}

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    def join(self) -> Stream:
        stream = Stream(self._desired)
        self._streams.append(stream)
        self._metrics.envoys.set(len(self._streams))
        return stream

    def name(self, stream: Stream, node: str) -> None:
        """Note which Envoy this is. An older stream of the same one is a dead
        connection that nobody has noticed yet: it must not hold up anybody."""
        stream.node = node
        for other in self._streams:
            if other is not stream and other.node == node:
                other.replaced.set()

    def leave(self, stream: Stream) -> None:
        self._streams.remove(stream)
        self._metrics.envoys.set(len(self._streams))
        # Who waited for this Envoy waits for the others only.
        self._tell(list(self._news))
        self._measure(list(self._changed_at))

    def publish(self, parts: set[Part]) -> None:
        now = self._clock()
        for part in parts:
            if not self._streams and self._desired.version(part) is None:
                self._changed_at.pop(part, None)  # no Envoy is there that should drop it
            else:
                self._changed_at.setdefault(part, now)
        for stream in self._streams:
            stream.subscriber.note(parts)
            stream.wake.set()
        self._tell(parts)

    def hear(self, stream: Stream, said: Said) -> None:
        if said.nonce:
            (self._metrics.nacks if said.error else self._metrics.acks).labels(
                said.type.name.lower()
            ).inc()
        settled = stream.subscriber.hear(said, self._clock())
        stream.wake.set()
        if not said.nonce:
            # Not an answer but news of what Envoy has and wants: after a time without
            # a connection that may settle anything of this type.
            settled |= {part for part in self._changed_at if part[0] is said.type}
            settled |= {part for part in self._news if part[0] is said.type}
        self._measure(settled)
        self._tell(settled)

    def retry(self) -> None:
        for stream in self._streams:
            if stream.subscriber.retry(self._clock()):
                stream.wake.set()

    @property
    def in_sync(self) -> bool:
        """Whether there is an Envoy, and every one has all it should have."""
        return bool(self._streams) and all(stream.subscriber.idle for stream in self._streams)

    def refusal(self, parts: Iterable[Part]) -> str:
        """Why an Envoy would not take one of `parts`; empty if none has refused."""
        reasons = (stream.subscriber.refusal(part) for part in parts for stream in self._streams)
        return next(filter(None, reasons), "")

    async def settle(self, ids: Iterable[str], timeout: float) -> Outcome:
        """Wait until every Envoy has acknowledged or one has refused each of `ids`."""
        deadline = asyncio.get_running_loop().time() + timeout
        outcome = Outcome()
        waiting = [id for id in ids if not self._decide(id, outcome)]
        news = asyncio.Event()
        while waiting:
            parts = [part for id in waiting for part in self._desired.parts(id)]
            for part in parts:
                self._news.setdefault(part, []).append(news)
            try:
                async with asyncio.timeout_at(deadline):
                    await news.wait()
            except TimeoutError:
                outcome.pending = waiting
                break
            finally:
                for part in parts:
                    self._news[part].remove(news)
                    if not self._news[part]:
                        del self._news[part]
            news.clear()
            waiting = [id for id in waiting if not self._decide(id, outcome)]
        return outcome

    def _decide(self, id: str, outcome: Outcome) -> bool:
        parts = list(self._desired.parts(id))
        if not parts:
            outcome.rejected[id] = "the route is no longer wanted"
            return True
        reason = self.refusal(parts)
        if reason:
            outcome.rejected[id] = reason
            return True
        if not self._everywhere(parts):
            return False
        outcome.acked.append(id)
        return True

    def _everywhere(self, parts: Iterable[Part]) -> bool:
        parts = list(parts)
        return bool(self._streams) and all(
            stream.subscriber.has(part) for stream in self._streams for part in parts
        )

    def _tell(self, parts: Iterable[Part]) -> None:
        for part in parts:
            for news in self._news.get(part, ()):
                news.set()

    def _measure(self, parts: Iterable[Part]) -> None:
        for part in parts:
            since = self._changed_at.get(part)
            if since is not None and self._everywhere([part]):
                del self._changed_at[part]
                self._metrics.lag.observe(self._clock() - since)

    def oldest_change(self) -> float:
        """For how many seconds the oldest change has waited for an acknowledgement."""
        if not self._changed_at:
            return 0.0
        return max(0.0, self._clock() - min(self._changed_at.values()))
