"""When a cluster is believed, suspected, given up, and believed again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from edgewise.api.global_sessions import ClientBinding
from edgewise.api.sessions import Session
from edgewise.kube.client import Listing
from edgewise.kube.errors import Forbidden, ServerError, Unreachable
from edgewise.kube.objects import Object
from edgewise.kube.watching import Change
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.connected_cluster import ConnectedCluster, Health, Patience
from edgewise.runtime.metrics import Metrics
from edgewise.testing.eventually import eventually
from tests.unit.sessions.hub.bindings import binding

BOTH = ["ClientBinding", "Session"]
EDGE = Selection(namespace="edge")
QUICK = Patience(probe_every=0.01, probe_timeout=0.1, suspect_after=0.15, lost_after=0.5)


class Cluster:
    """A cluster in memory: it answers, refuses, or is silent; its watches may hang."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.objects = [binding("alice", "porto", rv=1)]
        self.lists = 0
        self.watches = 0
        self.watching: list[type[Object]] = []
        self.asked: list[str] = []
        self.refused: set[type[Object]] = set()
        self.answering = asyncio.Event()
        self.answering.set()

    async def request(self, _verb: str, path: str, **__: Any) -> bytes:
        self.asked.append(path)
        if self.trouble is not None:
            raise self.trouble
        if any(path.endswith(f"/{kind.KIND.plural}") for kind in self.refused):
            raise Forbidden(403, "Forbidden", f"{path} is forbidden")
        return b""

    async def pages(self, kind: type[Object], *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        self.lists += 1
        await self.answering.wait()
        if kind in self.refused:
            raise Forbidden(403, "Forbidden", f"{kind.KIND.plural} is forbidden")
        if kind is not ClientBinding:
            yield Listing(items=[], resource_version="1")
            return
        if self.trouble is not None:
            raise self.trouble
        newest = max((int(each.metadata.resource_version) for each in self.objects), default=1)
        yield Listing(items=list(self.objects), resource_version=str(newest))

    async def watch(
        self, kind: type[Object], *_: Any, **__: Any
    ) -> AsyncGenerator[Change[Any], None]:
        self.watches += 1
        self.watching.append(kind)
        try:
            await asyncio.Event().wait()  # half-open: nothing ever comes, and nobody hangs up
            yield Change  # type: ignore[misc]
        finally:
            self.watching.remove(kind)


@asynccontextmanager
async def running(
    cluster: Cluster, *, kinds: tuple[type[Object], ...] = (ClientBinding,), **options: Any
) -> AsyncIterator[ConnectedCluster]:
    link = ConnectedCluster("porto", cluster, patience=QUICK, **options)  # type: ignore[arg-type]
    for kind in kinds:
        link.cache(kind, EDGE)
    task = asyncio.create_task(link.run())
    try:
        yield link
    finally:
        task.cancel()
        await asyncio.wait({task})


def shown(link: ConnectedCluster) -> list[str]:
    cache = link.cache(ClientBinding, EDGE)
    return sorted(each.spec.client for each in cache)


async def test_it_is_ready_when_its_caches_are_complete() -> None:
    cluster = Cluster()
    async with running(cluster) as link:
        assert link.health is Health.CONNECTING
        await eventually(lambda: link.ready)
        assert shown(link) == ["alice"]
        assert link.trouble == ""


@pytest.mark.parametrize("trouble", [Unreachable("no route"), ServerError(500, "", "etcd is down")])
async def test_silence_is_suspected_then_lost_then_caught_up_with(trouble: Exception) -> None:
    cluster = Cluster()
    async with running(cluster) as link:
        await eventually(lambda: link.ready)
        seen: list[Health] = []
        link.on_health(lambda: seen.append(link.health))
        cluster.trouble = trouble
        await eventually(lambda: link.health is Health.LOST)
        assert seen[:1] == [Health.SUSPECT]
        assert link.since is not None
        assert link.trouble == f"has not answered since {link.since:%Y-%m-%dT%H:%M:%SZ}"
        assert shown(link) == ["alice"]  # what was known stays known
        cluster.objects = [binding("bob", "porto", rv=9)]
        cluster.trouble = None
        await eventually(lambda: link.ready)
        assert link.since is None
        # Not by the old watch, which hangs: everything was listed anew.
        assert shown(link) == ["bob"]
        assert cluster.lists >= 2


async def test_a_short_hiccup_is_none() -> None:
    cluster = Cluster()
    async with running(cluster) as link:
        await eventually(lambda: link.ready)
        changes: list[Health] = []
        link.on_health(lambda: changes.append(link.health))
        cluster.trouble = Unreachable("no route")
        await asyncio.sleep(QUICK.suspect_after / 5)
        cluster.trouble = None
        await asyncio.sleep(QUICK.suspect_after)
        assert changes == []
        assert cluster.lists == 1


async def test_what_is_said_of_a_silence_stays_the_same_while_it_lasts() -> None:
    cluster = Cluster()
    seconds = itertools.count(2_000_000_000)  # another one whenever somebody looks
    async with running(cluster, clock=lambda: float(next(seconds))) as link:
        await eventually(lambda: link.ready)
        told: list[str] = []
        link.on_health(lambda: told.append(link.trouble))
        cluster.trouble = Unreachable("no route")
        await eventually(lambda: link.health is Health.LOST)
        # Suspected, then lost: told twice, in the same words.
        assert len(told) == 2
        assert {link.trouble, *told} == {told[0]}


async def test_who_refuses_us_is_not_ready_and_says_why() -> None:
    cluster = Cluster()
    cluster.trouble = Forbidden(403, "Forbidden", "sessions is forbidden")
    async with running(cluster) as link:
        await eventually(lambda: link.health is Health.LOST)
        assert link.trouble == "refuses us: sessions is forbidden"


async def test_a_process_that_was_too_busy_to_hear_blames_nobody() -> None:
    cluster = Cluster()
    now = [1000.0]
    async with running(cluster, monotonic=lambda: now[0]) as link:
        await eventually(lambda: link.ready)
        changes: list[Health] = []
        link.on_health(lambda: changes.append(link.health))
        for _ in range(5):
            now[0] += 60.0  # the whole process stood still, while the loop was asleep
            await asyncio.sleep(QUICK.probe_every * 3)
        assert changes == []


# Caches that come and go ----------------------------------------------------------------


async def test_without_caches_it_is_ready_when_it_answers_and_lost_when_it_does_not() -> None:
    cluster = Cluster()
    async with running(cluster, kinds=()) as link:
        await eventually(lambda: link.ready)
        assert set(cluster.asked) == {"/readyz"}
        cluster.trouble = Unreachable("no route")
        await eventually(lambda: link.health is Health.LOST)
        cluster.trouble = None
        await eventually(lambda: link.ready)


async def test_a_cache_that_is_asked_for_while_it_runs_is_filled() -> None:
    cluster = Cluster()
    async with running(cluster, kinds=()) as link:
        await eventually(lambda: link.ready)
        health: list[Health] = []
        link.on_health(lambda: health.append(link.health))
        cluster.answering.clear()
        cache = link.cache(ClientBinding, EDGE)
        await asyncio.sleep(QUICK.suspect_after * 2)
        assert link.ready
        assert not cache.synced
        cluster.answering.set()
        await eventually(lambda: shown(link) == ["alice"])
        # From now on the question is one that only those who may see it are answered.
        await eventually(lambda: "clientbindings" in cluster.asked[-1])
        assert health == []


async def test_a_new_cache_that_is_refused_takes_nothing_from_the_others() -> None:
    cluster = Cluster()
    cluster.refused = {Session}
    async with running(cluster) as link:
        await eventually(lambda: link.ready)
        health: list[Health] = []
        link.on_health(lambda: health.append(link.health))
        refused = link.cache(Session, EDGE)
        await eventually(lambda: link.caches.error(Session, EDGE) is not None)
        await asyncio.sleep(QUICK.suspect_after * 2)
        assert health == []
        assert not refused.synced
        assert "sessions is forbidden" in str(link.caches.error(Session, EDGE))


async def test_a_cache_that_is_closed_is_watched_no_longer() -> None:
    cluster = Cluster()
    metrics = Metrics()
    async with running(cluster, kinds=(ClientBinding, Session), metrics=metrics) as link:
        await eventually(lambda: sorted(each.__name__ for each in cluster.watching) == BOTH)
        old = link.cache(Session, EDGE)
        link.close(Session, EDGE)
        await eventually(lambda: cluster.watching == [ClientBinding])
        assert "sessions[edge]" not in metrics.text().decode()
        assert link.ready
        assert shown(link) == ["alice"]
        assert link.cache(Session, EDGE) is not old
        await eventually(lambda: sorted(each.__name__ for each in cluster.watching) == BOTH)


async def test_a_cache_that_is_closed_before_it_was_filled_is_not_waited_for() -> None:
    cluster = Cluster()
    cluster.refused = {Session}
    async with running(cluster, kinds=(ClientBinding, Session)) as link:
        await eventually(lambda: cluster.watching == [ClientBinding])
        assert not link.ready
        link.close(Session, EDGE)
        await eventually(lambda: link.ready)


async def test_a_cluster_that_comes_back_fills_the_new_caches_too() -> None:
    cluster = Cluster()
    async with running(cluster, kinds=()) as link:
        await eventually(lambda: link.ready)
        cluster.trouble = Unreachable("no route")
        await eventually(lambda: link.health is Health.SUSPECT)
        link.cache(ClientBinding, EDGE)
        cluster.trouble = None
        await eventually(lambda: link.ready)
        assert shown(link) == ["alice"]


async def test_without_the_question_its_caches_alone_make_it_ready() -> None:
    cluster = Cluster()
    async with running(cluster, probing=False) as link:
        await eventually(lambda: link.ready)
        assert shown(link) == ["alice"]
        assert cluster.asked == []
