"""A trace happens at its times, in its order, and the same in every run."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from typing import Any

from edgewise.bench.evaluation.cases.case import Case
from edgewise.bench.evaluation.choosing import Choosing
from edgewise.bench.evaluation.records import Kind, Record
from edgewise.bench.evaluation.running import Place, TraceRun
from edgewise.bench.evaluation.trace import Do, Event, Trace
from edgewise.bench.evaluation.workloads.workload import Connection, Opened, Workload
from edgewise.kube.errors import NotFound

EVENTS = (
    Event(at=0, do=Do.CREATE_SESSION, session="s1"),
    Event(at=0.05, do=Do.CREATE_CLIENT, session="s1", client="c1"),
    Event(at=0.1, do=Do.CREATE_CLIENT, session="s1", client="c2"),
    Event(at=0.15, do=Do.CREATE_CLIENT, session="s1", client="c3"),
    Event(at=0.4, do=Do.DELETE_POD),
    Event(at=0.8, do=Do.DELETE_CLIENT, session="s1", client="c1"),
    Event(at=0.9, do=Do.DELETE_SESSION, session="s1"),
)
TRACE = Trace(preset="small", seed=1, seconds=1, events=EVENTS)


class Cluster:
    """A case, its pods and the API that deletes them: a client's pod is named after it."""

    def __init__(self, *, slow: float = 0.0) -> None:
        self.did: list[str] = []
        self.deleted: list[str] = []
        self.pods: dict[str, int] = {}
        self.slow = slow
        self.looked_at: set[bool] = set()  # by a collection of garbage that would begin at a join

    async def delete(self, _kind: Any, pod: str, _namespace: str, *, grace_seconds: int) -> None:
        assert grace_seconds == 0
        self.deleted.append(pod)
        raise NotFound(404)  # somebody else was faster: the pod is gone all the same


def is_looked_at(found: object) -> bool:
    return any(each is found for each in gc.get_objects())


class Serving(Case):
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create_session(self, session: str) -> None:
        self._cluster.did.append(f"create {session}")

    async def delete_session(self, session: str) -> None:
        self._cluster.did.append(f"delete {session}")

    async def join(self, session: str, client: str) -> None:
        self._cluster.did.append(f"join {client}")
        self._cluster.looked_at.add(is_looked_at(self._cluster))
        await asyncio.sleep(self._cluster.slow)

    async def lost(self, session: str, client: str) -> None:
        self._cluster.did.append(f"lost {client}")

    async def leave(self, session: str, client: str) -> None:
        self._cluster.did.append(f"leave {client}")

    async def urls(self, session: str, client: str) -> AsyncIterator[str]:
        while True:
            yield f"http://{client}/"
            await asyncio.sleep(0.01)


class Reached(Connection):
    def __init__(self, cluster: Cluster, client: str) -> None:
        self._cluster = cluster
        self._client = client
        self._made = 0

    def _pod(self) -> str:
        return f"{self._client}-{self._made}"

    async def open(self, url: str) -> Opened | None:
        assert url == f"http://{self._client}/"
        self._made += self._pod() in self._cluster.deleted
        return Opened(self._pod(), time.perf_counter())

    async def holds(self) -> str:
        return self._pod()

    async def goodbye(self) -> None:
        self._cluster.did.append(f"goodbye {self._client}")

    async def close(self) -> None:
        """Nothing is open."""


class Light(Workload):
    port = 80

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def pod_spec(self) -> dict[str, Any]:
        return {}

    def connection(self, client: str) -> Connection:
        return Reached(self._cluster, client)


async def ran(cluster: Cluster) -> list[Record]:
    kept: list[Record] = []
    place = Place(cluster, Serving(cluster), Light(cluster))  # type: ignore[arg-type]
    run = TraceRun(
        [place], TRACE, choosing=Choosing(["nowhere"]), speed=1, keep=kept.append, tell=print
    )
    await run.prepare()
    async with asyncio.timeout(30):
        await run.run()
    return kept


def of(kept: list[Record], kind: Kind) -> list[Record]:
    return [each for each in kept if each.kind is kind]


async def test_everybody_comes_is_lost_comes_back_and_leaves() -> None:
    cluster = Cluster()
    kept = await ran(cluster)
    assert [each.client for each in of(kept, Kind.CONNECT)] == ["c1", "c2", "c3"]
    (back,) = of(kept, Kind.RECOVER)
    assert cluster.deleted == [f"{back.client}-0"]
    assert f"lost {back.client}" in cluster.did
    # A session goes after those who were in it.
    assert cluster.did[-1] == "delete s1"
    assert {"leave c1", "leave c2", "leave c3", "goodbye c2"} <= set(cluster.did)
    assert len(of(kept, Kind.EVENT)) == len(EVENTS)
    # While events are due, nothing is looked through that was there before.
    assert cluster.looked_at == {False}
    assert is_looked_at(cluster)


async def test_the_same_client_loses_its_pod_in_every_run() -> None:
    first, second = Cluster(), Cluster()
    await ran(first)
    await ran(second)
    assert first.deleted == second.deleted


async def test_a_case_that_is_slow_delays_no_event() -> None:
    kept = await ran(Cluster(slow=5))
    assert of(kept, Kind.CONNECT) == []
    assert [each.client for each in of(kept, Kind.LEFT_WAITING)] == ["c1", "c2", "c3"]
    assert len(of(kept, Kind.NO_POD)) == 1
    assert max(each.seconds for each in of(kept, Kind.EVENT)) < 1
    assert kept[-1].at < 5
