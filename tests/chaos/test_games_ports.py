"""Nearly as many servers as two nodes have ports, one of which a foreign program holds, and an
operator that is started again in the middle: every server gets a port, and none is given twice."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from edgewise.gameservers.server.settings import GamePorts, Settings
from edgewise.kube.errors import KubeError
from edgewise.kube.kinds.core import Pod
from edgewise.testing.eventually import eventually
from edgewise.workloads.pods_seen import host_ports_of
from tests.chaos.game_world import game_world
from tests.integration.conftest import ApiServer

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
PORTS = 100 if LONG else 10
FIRST = 7000

pytestmark = pytest.mark.chaos


@pytest.mark.timeout(600)
async def test_no_port_is_given_twice_though_nearly_all_are_taken(api_server: ApiServer) -> None:
    number = 2 * PORTS - 1  # one is not to be had
    async with game_world(api_server) as (world, _):
        world.settings = Settings(ports=GamePorts(FIRST, FIRST + PORTS - 1))
        foreign = {
            "containers": [
                {
                    "name": "foreign",
                    "image": "foreign:1",
                    "ports": [{"containerPort": 1, "hostPort": FIRST + 3, "protocol": "UDP"}],
                }
            ]
        }
        await world.client.create(Pod.named("foreign", world.namespace, spec=foreign))

        async def ready(least: int) -> None:
            found = await world.servers("Ready")
            assert len(found) >= least, len(found)

        spec = {"ports": [{"name": "play", "containerPort": 7777}]}
        async with world.operator():
            await world.fleet(number, server=spec)
            await eventually(lambda: ready(number // 3), within=60, not_yet=(KubeError,))
        async with world.operator():
            await eventually(lambda: ready(number), within=180, not_yet=(KubeError,))
            servers = await world.servers()
        assert len(servers) == number
        on_node: Counter[tuple[str, int]] = Counter()
        for pod in (await world.client.list(Pod, world.namespace)).items:
            on_node.update((pod.node_name, port) for port in host_ports_of(pod).values())
        assert set(on_node.values()) == {1}
        assert len(on_node) == 2 * PORTS
        told = Counter((each.status.node, each.status.ports[0].port) for each in servers)
        assert set(told.values()) == {1}
        assert set(told) < set(on_node)
