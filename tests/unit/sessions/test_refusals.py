"""What is said of pods that the API server refuses, again and again."""

from __future__ import annotations

from typing import Any

from edgewise.kube.errors import ServerError
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Kind
from tests.unit.sessions.test_trouble import notes, started
from tests.unit.sessions.world import World


async def test_words_that_differ_in_numbers_only_are_said_once() -> None:
    world = World()
    ports = iter(range(50_000, 60_000))

    def down(kind: Kind, _: dict[str, Any]) -> None:
        if kind == Pod.KIND:
            words = f"read tcp 10.0.0.1:{next(ports)}->10.0.0.2:443: connection reset"
            raise ServerError(500, "InternalError", f'failed calling webhook "w": {words}')

    world.store.admit = down
    operator = await started(world, "ann")
    await world.advance(120, operator)
    assert next(ports) > 50_003, "it was tried again and again"
    assert len(notes(operator, "PodsRefused")) == 1
