"""When a gateway knows its routes, and may tell Envoy that there are no others."""

import asyncio
from types import SimpleNamespace

import pytest

from edgewise.agents.gateway import serving
from edgewise.kube.errors import NotFound, Unreachable
from edgewise.kube.objects import Kind
from edgewise.testing.eventually import eventually

LISTED, COMING, ABSENT, SILENT = "listed", "coming", "absent", "silent"

KNOWN = {
    "every source is listed": ((LISTED, LISTED), True),
    "one is still being listed": ((LISTED, COMING), False),
    "one has a kind that the cluster does not have": ((LISTED, ABSENT), True),
    "no source has a kind that the cluster has": ((ABSENT, ABSENT), False),
    "the only source has a kind that the cluster does not have": ((ABSENT,), False),
    "one is absent, another still being listed": ((LISTED, ABSENT, COMING), False),
    "the API server does not say whether it has the kind": ((LISTED, SILENT), False),
}


class Cluster:
    """Caches and client of a cluster whose kinds are in these states."""

    def __init__(self, states):
        self.states = {f"Kind{n}": state for n, state in enumerate(states)}
        self.asked = 0

    def sources(self):
        return [
            SimpleNamespace(domain=name, kind=SimpleNamespace(KIND=Kind("g", "v1", name, name)))
            for name in self.states
        ]

    def of(self, kind):
        self.asked += 1
        return SimpleNamespace(synced=self.states[kind.KIND.kind] == LISTED)

    async def wait_synced(self):
        if set(self.states.values()) != {LISTED}:
            await asyncio.Event().wait()

    async def kind_of(self, _, kind):
        if self.states[kind] == ABSENT:
            raise NotFound(404, "NotFound", "no such kind")
        if self.states[kind] == SILENT:
            raise Unreachable("no answer")


@pytest.mark.parametrize("case", KNOWN)
async def test_the_routes_are_known_when(case, monkeypatch):
    states, expected = KNOWN[case]
    monkeypatch.setattr(serving, "LOOK_SECONDS", 0.001)
    cluster, known = Cluster(states), asyncio.Event()
    agent = SimpleNamespace(routing=SimpleNamespace(known=known))
    task = asyncio.create_task(serving.know(agent, cluster, cluster, cluster.sources()))
    try:
        await eventually(lambda: known.is_set() or cluster.asked > 20 * len(states))
        assert known.is_set() is expected
        assert not task.done(), "it stays known"
    finally:
        task.cancel()
