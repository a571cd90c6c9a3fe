"""Users in a place that nobody asks for their answers."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import cast

import pytest

from edgewise.bench.placement import probing
from edgewise.local.clusters import LocalCluster
from edgewise.testing.ports import free_port


def test_nothing_of_a_prober_outlives_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "command_in", lambda _, __, command: command)
    monkeypatch.setattr(probing, "environment_in", lambda *_: {})
    complaints: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda seen: complaints.append(str(seen.exc_value)))

    async def run() -> None:
        cluster = cast(LocalCluster, None)
        async with probing.probing(cluster, "users", "127.0.0.1", free_port()):
            await asyncio.sleep(0.2)

    asyncio.run(run())
    gc.collect()
    assert complaints == []
