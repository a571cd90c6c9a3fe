"""Routes that come and go while no Envoy is there leave nothing behind."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from edgewise.agents.gateway.desired import Desired
from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.agents.gateway.settings import Settings
from edgewise.agents.gateway.streams import Streams
from tests.unit.gateway.test_subscriber import udp


def test_a_change_that_nobody_will_acknowledge_is_not_waited_for() -> None:
    desired = Desired(Settings())
    streams = Streams(desired, GatewayMetrics(CollectorRegistry()), lambda: 0.0)
    for number in range(100):
        route = udp(f"s{number}", 20000 + number)
        streams.publish(desired.apply({route.id: route}))
        assert streams._changed_at
        streams.publish(desired.apply({route.id: None}))
    assert streams._changed_at == {}
