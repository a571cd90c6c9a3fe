"""An Envoy that goes away does not count any more, however its connection ends."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from envoy.service.discovery.v3 import discovery_pb2
from prometheus_client import CollectorRegistry

from edgewise.agents.gateway.ads import AdsServer
from edgewise.agents.gateway.desired import Desired
from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.agents.gateway.settings import Settings
from edgewise.agents.gateway.streams import Streams


async def some_turns_of_the_loop(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.parametrize("turns", range(12))
async def test_requests_that_run_out_and_a_cancellation_may_come_at_any_distance(
    turns: int,
) -> None:
    streams = Streams(Desired(Settings()), GatewayMetrics(CollectorRegistry()), lambda: 0.0)
    server = AdsServer(streams, asyncio.Event())
    broken = asyncio.Event()

    async def requests() -> AsyncIterator[discovery_pb2.DeltaDiscoveryRequest]:
        first = discovery_pb2.DeltaDiscoveryRequest()
        first.node.id = "envoy-1"
        yield first
        await broken.wait()

    serving = asyncio.ensure_future(server._serve(requests(), cast(Any, None)))
    await some_turns_of_the_loop(5)
    assert len(streams) == 1
    broken.set()
    await some_turns_of_the_loop(turns)
    serving.cancel()
    await asyncio.wait({serving}, timeout=5)
    assert serving.done()
    assert len(streams) == 0
    await server.stop()
