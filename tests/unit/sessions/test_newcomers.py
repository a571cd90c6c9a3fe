"""A client that no pod has served yet has nothing to lose in one that is not ready."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sessions.test_trouble import record, started, with_image
from tests.unit.sessions.world import World


@pytest.fixture
def world() -> World:
    return World()


async def test_nobody_new_is_put_into_a_pod_that_is_no_longer_ready(world: World) -> None:
    operator = await started(world, "ann", podTemplates=with_image("one", maxClients=4))
    old = world.pod_of("ann")
    world.set_pod(old, ready=False)
    world.clients(bob=True)
    await world.settle(operator)
    assert world.pod_of("ann") == old, "it may hold what matters to her"
    assert record(world, "bob").ready


@pytest.mark.parametrize("spec", [{"warmPods": 1}, {"maxClients": 4}], ids=["warm", "shared"])
async def test_a_client_that_no_pod_has_served_yet_does_not_wait_for_one_for_ever(
    spec: dict[str, Any], world: World
) -> None:
    """Its pod was ready when it got it, and is not from then on."""
    with_ann = ["ann"] if "maxClients" in spec else []
    operator = await started(world, *with_ann, podTemplates=with_image("one", **spec))
    world.gateways.silent = True
    world.clients(bob=True)
    await world.settle(operator)
    first = world.pod_of("bob")
    world.set_pod(first, ready=False)
    world.gateways.silent = False
    await world.advance(59, operator)
    assert world.pod_of("bob") == first
    await world.advance(3, operator)
    assert world.pod_of("bob") != first
    assert record(world, "bob").ready
    assert [world.pod_of(client) for client in with_ann] == [first] * len(with_ann)
