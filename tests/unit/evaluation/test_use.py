"""What pods use is the sum of all kubelets, or it is not told."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from edgewise.bench.evaluation import use
from edgewise.bench.evaluation.records import Record
from edgewise.bench.evaluation.use import Use
from edgewise.bench.evaluation.workloads.workload import NAMESPACE
from edgewise.bench.process_cost import children
from edgewise.kube.errors import ServerError
from edgewise.kube.kinds.core import Node, NodeSpec, NodeStatus, ReportedCondition, Taint


def node(name: str, *, ready: str = "True", taint: str = "") -> Node:
    return Node.named(
        name,
        spec=NodeSpec(taints=[Taint(key="x", effect=taint)] if taint else []),
        status=NodeStatus(conditions=[ReportedCondition(type="Ready", status=ready)]),
    )


class Cluster:
    """Two nodes that take pods, one that is away, and one for others."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.silent: set[str] = set()

    async def list(self, kind: type[Node]) -> Any:
        away, others = node("away", ready="Unknown"), node("others", taint="NoSchedule")
        return SimpleNamespace(items=[node("n1"), node("n2"), away, others])

    async def request(self, method: str, path: str, *, timeout: float, largest: int) -> bytes:
        name = path.removeprefix("/api/v1/nodes/").removesuffix("/proxy/stats/summary")
        self.asked.append(name)
        if name in self.silent:
            raise ServerError(500, "", "no stats at this moment")
        figures = {"memory": {"workingSetBytes": 8e6}, "cpu": {"usageNanoCores": 2e7}}
        ours, other = {"namespace": NAMESPACE}, {"namespace": "kube-system"}
        pods = [{"podRef": ours, **figures}, {"podRef": other, **figures}, {"podRef": ours}]
        return msgspec.json.encode({"pods": pods})


async def test_all_processes_are_looked_at_once_for_all_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes the time of many requests, and the clients are in the same process."""
    looks: list[None] = []

    def counted() -> dict[int, list[int]]:
        looks.append(None)
        return children()

    monkeypatch.setattr(use, "children", counted)
    kept: asyncio.Queue[Record] = asyncio.Queue()
    cluster: Any = Cluster()
    using = Use([cluster], dict.fromkeys(("operator", "gateway"), os.getpid()), lambda: 1.0)
    keeping = asyncio.create_task(using.keep(60, kept.put_nowait))
    async with asyncio.timeout(30):
        sample = await kept.get()
    keeping.cancel()
    await asyncio.wait([keeping])
    assert sample.parts.keys() == {"operator", "gateway"}
    assert len(looks) == 1


async def test_there_is_no_sample_while_a_kubelet_does_not_answer() -> None:
    cluster: Any = Cluster()
    kept: list[Record] = []
    using = Use([cluster], {"operator": os.getpid()}, lambda: 1.0)
    await using.begin()
    keeping = asyncio.create_task(using.keep(0.02, kept.append))

    async def until_asked(times: int) -> None:
        cluster.asked.clear()
        async with asyncio.timeout(30):
            while len(cluster.asked) < times:  # noqa: ASYNC110 - what is waited for is in a list
                await asyncio.sleep(0.01)

    await until_asked(4)
    assert kept
    assert set(cluster.asked) == {"n1", "n2"}
    assert {(each.pods, each.pods_mb, each.pods_cpu) for each in kept} == {(4, 16.0, 0.04)}
    assert kept[0].parts["operator"][0] > 5
    cluster.silent.add("n2")
    await until_asked(4)  # what was on its way is over
    kept.clear()
    await until_asked(4)
    assert kept == []
    cluster.silent.clear()
    await until_asked(6)
    assert kept
    keeping.cancel()
    await asyncio.wait([keeping])
