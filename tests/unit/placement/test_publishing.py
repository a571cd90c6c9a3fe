"""Reports that come over HTTP, on their way to many brokers."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from edgewise.placement.broker_url import BrokerUrl
from edgewise.placement.hub import publishing
from edgewise.placement.hub.publishing import Publishers, Unpublished


class Broker:
    """Takes what is published, one at a time where it is slow."""

    open: ClassVar[list[str]] = []
    closed: ClassVar[list[str]] = []
    slow: ClassVar[dict[str, asyncio.Event]] = {}

    def __init__(self, *, hostname: str, **_: Any) -> None:
        self._host = hostname

    async def __aenter__(self) -> Broker:
        self.open.append(self._host)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.open.remove(self._host)
        self.closed.append(self._host)

    async def publish(self, _topic: str, _report: bytes) -> None:
        if self._host in self.slow:
            await self.slow[self._host].wait()


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> type[Broker]:
    for each in (Broker.open, Broker.closed, Broker.slow):
        each.clear()
    monkeypatch.setattr("edgewise.placement.hub.publishing.aiomqtt.Client", Broker)
    monkeypatch.setattr(publishing, "MOST_BROKERS", 2)
    return Broker


def at(host: str) -> BrokerUrl:
    return BrokerUrl(host=host, port=1883)


async def test_beyond_the_most_brokers_the_one_that_was_idle_for_longest_goes(
    brokers: type[Broker],
) -> None:
    publishers = Publishers()
    for host in ("a", "b", "a", "c"):
        await publishers.publish(at(host), "t", [b"r"])
    assert (brokers.open, brokers.closed) == (["a", "c"], ["b"])
    await publishers.close()
    assert brokers.open == []


async def test_a_connection_that_is_in_use_is_not_closed_for_another(brokers: type[Broker]) -> None:
    publishers = Publishers()
    brokers.slow.update(a=asyncio.Event(), b=asyncio.Event())
    running = [asyncio.create_task(publishers.publish(at(host), "t", [b"r"])) for host in "ab"]
    await asyncio.sleep(0)
    with pytest.raises(Unpublished, match="too many brokers"):
        await publishers.publish(at("c"), "t", [b"r"])
    for each in brokers.slow.values():
        each.set()
    await asyncio.gather(*running)
    await publishers.publish(at("c"), "t", [b"r"])
    await publishers.close()
    assert (brokers.open, sorted(brokers.closed)) == ([], ["a", "b", "c"])
