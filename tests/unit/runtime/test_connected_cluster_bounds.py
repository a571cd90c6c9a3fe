"""A cluster that shows more than it can honestly have is not followed, and is shown as such."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from edgewise.api.global_sessions import ClientBinding
from edgewise.kube.client import Listing
from edgewise.kube.errors import TooLarge
from edgewise.kube.watching import Change, ChangeType
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.connected_cluster import ConnectedCluster, Health
from edgewise.runtime.metrics import Metrics
from edgewise.testing.eventually import eventually
from tests.unit.runtime.test_connected_cluster import QUICK, Cluster
from tests.unit.sessions.hub.bindings import binding

HEAVIEST = 100_000
HERE = Selection(namespace="edge")


class Braggart(Cluster):
    """Its objects are as large as it says, and it tells of as many as one takes."""

    def __init__(self, listed: int, each: int, told: int = 0) -> None:
        super().__init__()
        self.objects = [binding(f"c{number}", "porto", rv=number + 1) for number in range(listed)]
        self.each = each
        self.told = told
        self.taken = 0

    async def pages(self, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        self.lists += 1
        for obj in self.objects:
            self.taken += 1
            yield Listing([obj], obj.metadata.resource_version, "more", self.each)

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[Change[Any], None]:
        for number in range(self.told):
            change = Change(ChangeType.ADDED, binding(f"w{number}", "porto", rv=1000 + number))
            change.size = self.each
            self.taken += 1
            yield change
        await asyncio.Event().wait()


async def follow(cluster: Cluster, metrics: Metrics) -> tuple[ConnectedCluster, asyncio.Task[None]]:
    link = ConnectedCluster(
        "porto",
        cluster,  # type: ignore[arg-type]
        patience=QUICK,
        metrics=metrics,
        label="member/porto",
        heaviest=lambda _: HEAVIEST,
    )
    link.cache(ClientBinding, HERE)
    return link, asyncio.create_task(link.run())


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def test_a_list_that_is_too_heavy_is_given_up() -> None:
    cluster = Braggart(listed=1000, each=10_000)
    link, task = await follow(cluster, Metrics())
    await eventually(lambda: "cannot be followed" in link.trouble)
    assert link.health is Health.CONNECTING
    assert cluster.taken == 11
    assert "more than 0 MiB" in link.trouble
    await end(task)


async def test_small_objects_are_not_free() -> None:
    cluster = Braggart(listed=1000, each=10)
    link, task = await follow(cluster, Metrics())
    await eventually(lambda: "cannot be followed" in link.trouble)
    assert cluster.taken == HEAVIEST // 2048 + 1
    await end(task)


async def test_a_watch_that_brings_too_much_is_given_up() -> None:
    cluster = Braggart(listed=1, each=10_000, told=1000)
    link, task = await follow(cluster, Metrics())
    # On a slow machine a probe may be late, too, and be told of first.
    await eventually(lambda: "cannot be followed" in link.trouble)
    assert link.health is Health.SUSPECT
    assert len(link.cache(ClientBinding, HERE)) == 10
    await end(task)


async def test_changes_of_the_same_objects_are_not_added_up() -> None:
    class Busy(Braggart):
        async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[Change[Any], None]:
            for number in range(100):
                changed = binding("c0", "porto", rv=1000 + number)
                yield Change(ChangeType.MODIFIED, changed, 10_000)
            self.told = 1
            await asyncio.Event().wait()

    cluster = Busy(listed=1, each=10_000)
    link, task = await follow(cluster, Metrics())
    await eventually(lambda: cluster.told == 1)
    await eventually(lambda: link.ready)
    await end(task)


async def test_a_probe_that_is_answered_with_too_much_says_so() -> None:
    cluster = Cluster()
    cluster.trouble = TooLarge("it answers with more than 4,194,304 bytes")
    link, task = await follow(cluster, Metrics())
    await eventually(lambda: link.health is Health.LOST)
    assert link.trouble == "cannot be followed: it answers with more than 4,194,304 bytes"
    await end(task)


async def test_metrics_name_the_cluster_and_go_with_it() -> None:
    metrics = Metrics()
    cluster = Braggart(listed=3, each=100)
    link, task = await follow(cluster, metrics)
    await eventually(lambda: link.ready)
    cache = "member/porto/clientbindings[edge]"
    assert metrics.value("edgewise_cache_objects", cache=cache) == 3
    assert metrics.value("edgewise_lists_total", cache=cache) == 1
    assert metrics.value(
        "edgewise_api_requests_total", verb="list", kind="ClientBinding", code="200"
    )
    assert cache in metrics.text().decode()
    await end(task)
    assert cache not in metrics.text().decode()
