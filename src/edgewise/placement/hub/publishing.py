"""Publishes reports for clients that speak HTTP: one connection to each broker, kept open."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

import aiomqtt

from edgewise.errors import ReadableError
from edgewise.placement.broker_url import BrokerUrl

SECONDS = 5.0
MOST_BROKERS = 64
# Calls that wait for their turn at one broker.
MOST_WAITING = 100
# After a failure, so long no call waits to see the same one.
AWAY_SECONDS = 1.0


class Unpublished(ReadableError):
    """The broker does not take it now."""


class _Publisher:
    def __init__(self, broker: BrokerUrl) -> None:
        self._broker = broker
        self._turn = asyncio.Lock()
        self._client: aiomqtt.Client | None = None
        self._waiting = 0
        self._away_until = 0.0

    @property
    def busy(self) -> bool:
        return self._waiting > 0

    async def publish(self, topic: str, reports: Sequence[bytes]) -> None:
        if self._waiting >= MOST_WAITING:
            raise Unpublished("too many reports wait for it")
        self._waiting += 1
        try:
            await self._publish(topic, reports)
        finally:
            self._waiting -= 1

    async def _publish(self, topic: str, reports: Sequence[bytes]) -> None:
        async with self._turn:
            if time.monotonic() < self._away_until:
                raise Unpublished("it does not answer")
            for attempt in range(2):
                try:
                    async with asyncio.timeout(SECONDS):
                        client = await self._connected()
                        for report in reports:
                            await client.publish(topic, report)
                    return
                except (aiomqtt.MqttError, TimeoutError) as error:
                    # A connection that was idle for long may be gone: once more with a new one.
                    await self.close()
                    if attempt:
                        self._away_until = time.monotonic() + AWAY_SECONDS
                        raise Unpublished(str(error) or "it does not answer") from error

    async def _connected(self) -> aiomqtt.Client:
        if self._client is None:
            client = aiomqtt.Client(**self._broker.client_options(), timeout=SECONDS)
            await client.__aenter__()
            self._client = client
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(aiomqtt.MqttError, TimeoutError):
                await client.__aexit__(None, None, None)


class Publishers:
    def __init__(self) -> None:
        self._open: dict[BrokerUrl, _Publisher] = {}  # the last used one is the last

    async def publish(self, broker: BrokerUrl, topic: str, reports: Sequence[bytes]) -> None:
        if broker not in self._open:
            await self._make_room()
        known = self._open.pop(broker, None) or _Publisher(broker)
        self._open[broker] = known
        await known.publish(topic, reports)

    async def _make_room(self) -> None:
        """One that is in use would open its connection again, and nobody would close it."""
        while len(self._open) >= MOST_BROKERS:
            idle = next((broker for broker, each in self._open.items() if not each.busy), None)
            if idle is None:
                raise Unpublished("too many brokers are written to at once")
            await self._open.pop(idle).close()

    async def close(self) -> None:
        publishers, self._open = list(self._open.values()), {}
        for each in publishers:
            await each.close()
