"""When a cluster is believed, suspected, given up, and believed again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from edgewise.api.fleet import ClientBinding
from edgewise.kube.client import Listing
from edgewise.kube.errors import Forbidden, ServerError, Unreachable
from edgewise.kube.objects import Object
from edgewise.kube.watching import Change
from edgewise.runtime.selection import Selection
from edgewise.server.mirror import Health, Mirror, Patience
from edgewise.testing.eventually import eventually
from tests.unit.server.bindings import binding

QUICK = Patience(probe_every=0.01, probe_timeout=0.1, suspect_after=0.15, lost_after=0.5)


class Cluster:
    """A cluster in memory: it answers, refuses, or is silent; its watches may hang."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.objects = [binding("alice", "porto", rv=1)]
        self.lists = 0
        self.watches = 0

    async def request(self, *_: Any, **__: Any) -> bytes:
        if self.trouble is not None:
            raise self.trouble
        return b""

    async def pages(self, kind: type[Object], *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        self.lists += 1
        if self.trouble is not None:
            raise self.trouble
        newest = max((int(each.metadata.resource_version) for each in self.objects), default=1)
        yield Listing(items=list(self.objects), resource_version=str(newest))

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[Change[Any], None]:
        self.watches += 1
        await asyncio.Event().wait()  # half-open: nothing ever comes, and nobody hangs up
        yield Change  # type: ignore[misc]


@asynccontextmanager
async def running(cluster: Cluster, **options: Any) -> AsyncIterator[Mirror]:
    mirror = Mirror("porto", cluster, patience=QUICK, **options)  # type: ignore[arg-type]
    mirror.cache(ClientBinding, Selection(namespace="edge"))
    task = asyncio.create_task(mirror.run())
    try:
        yield mirror
    finally:
        task.cancel()
        await asyncio.wait({task})


def shown(mirror: Mirror) -> list[str]:
    cache = mirror.cache(ClientBinding, Selection(namespace="edge"))
    return sorted(each.spec.client for each in cache)


async def test_it_is_ready_when_its_caches_are_complete() -> None:
    cluster = Cluster()
    async with running(cluster) as mirror:
        assert mirror.health is Health.CONNECTING
        await eventually(lambda: mirror.ready)
        assert shown(mirror) == ["alice"]
        assert mirror.trouble == ""


@pytest.mark.parametrize("trouble", [Unreachable("no route"), ServerError(500, "", "etcd is down")])
async def test_silence_is_suspected_then_lost_then_caught_up_with(trouble: Exception) -> None:
    cluster = Cluster()
    async with running(cluster) as mirror:
        await eventually(lambda: mirror.ready)
        seen: list[Health] = []
        mirror.on_health(lambda: seen.append(mirror.health))
        cluster.trouble = trouble
        await eventually(lambda: mirror.health is Health.LOST)
        assert seen[:1] == [Health.SUSPECT]
        assert mirror.trouble.startswith("has not answered for")
        assert shown(mirror) == ["alice"]  # what was known stays known
        cluster.objects = [binding("bob", "porto", rv=9)]
        cluster.trouble = None
        await eventually(lambda: mirror.ready)
        # Not by the old watch, which hangs: everything was listed anew.
        assert shown(mirror) == ["bob"]
        assert cluster.lists >= 2


async def test_a_short_hiccup_is_none() -> None:
    cluster = Cluster()
    async with running(cluster) as mirror:
        await eventually(lambda: mirror.ready)
        changes: list[Health] = []
        mirror.on_health(lambda: changes.append(mirror.health))
        cluster.trouble = Unreachable("no route")
        await asyncio.sleep(QUICK.suspect_after / 5)
        cluster.trouble = None
        await asyncio.sleep(QUICK.suspect_after)
        assert changes == []
        assert cluster.lists == 1


async def test_who_refuses_us_is_not_ready_and_says_why() -> None:
    cluster = Cluster()
    cluster.trouble = Forbidden(403, "Forbidden", "sessions is forbidden")
    async with running(cluster) as mirror:
        await eventually(lambda: mirror.health is Health.LOST)
        assert mirror.trouble == "refuses us: sessions is forbidden"


async def test_a_process_that_was_too_busy_to_hear_blames_nobody() -> None:
    cluster = Cluster()
    now = [1000.0]
    async with running(cluster, monotonic=lambda: now[0]) as mirror:
        await eventually(lambda: mirror.ready)
        changes: list[Health] = []
        mirror.on_health(lambda: changes.append(mirror.health))
        for _ in range(5):
            now[0] += 60.0  # the whole process stood still, while the loop was asleep
            await asyncio.sleep(QUICK.probe_every * 3)
        assert changes == []
