"""Slices on a real API server, with operators that are killed: at any of their writes, and in a
storm of two that know nothing of each other. No node is in two slices, no slice has half of its
nodes, pods of others are gone when it says so, and nobody else's are touched.

`make test` plays two cut points and a short storm, `make chaos` all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edgewise.api.tenancy import SLICE, SubNamespace
from edgewise.api.tenancy_slices import Slice, SliceClaim
from edgewise.domain import install_domains
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import KubeError
from edgewise.kube.kinds.core import Namespace, Node
from edgewise.tenancy.domain import TENANCY
from edgewise.tenancy.slices.nodes import is_shared
from edgewise.testing.eventually import eventually
from tests.chaos.harness import Trial, operators, rage, survive
from tests.integration.conftest import ApiServer
from tests.integration.tenancy.slices.field import POOL, Field, playing

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
CUTS = 2
SECONDS = 40.0 if LONG else 10.0
SEEDS = list(range(6 if LONG else 1))
PATIENCE = 90.0

pytestmark = pytest.mark.chaos


@pytest.fixture
async def client(api_server: ApiServer) -> AsyncIterator[Client]:
    async with Client(load_access(api_server.kubeconfig)) as connected:
        await install_domains(connected, [TENANCY], TENANCY.kinds)
        yield connected


class Script:
    """A slice of two nodes is taken from others, used, and returned; a second one wants the same
    nodes meanwhile."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.nodes: list[str] = []
        self.others: list[tuple[str, str]] = []

    async def play(self, _: Client, __: str) -> None:
        field = self.field
        await field.tenants({})
        self.nodes = [await field.node(name) for name in ("a", "b", "c")]
        foreign = await field.pod(field.rival, self.nodes[0])
        self.others = [
            ("default", await field.pod("default", self.nodes[0])),
            (field.acme, await field.pod(field.acme, self.nodes[1])),
            (field.rival, await field.pod(field.rival, self.nodes[2])),
        ]
        await field.claim("c", mode="Manual")
        name = await field.slice("s", claim="c", node_count=2, grace_seconds=2)
        await field.claim_is("c", "Bound")
        await field.slice("t", node_count=2)
        child = await field.use("c")
        await field.inside_is("Established")
        assert not await field.has_pod(field.rival, foreign)
        inside = await field.pod(child, self.nodes[0], **_pinned(name))
        await field.admin.delete(SubNamespace, "inside", field.acme)
        await field.admin.delete(Slice, name)
        await field.slice_is(f"t-{field.pool}", "Reserved")
        assert not await field.has_pod(child, inside)

    async def well(self, _: Client, __: str) -> None:
        await consistent(self.field)
        looks = [await self.field.look(node) for node in self.nodes]
        second = f"t-{self.field.pool}"
        assert sorted(looks) == [("", []), (second, []), (second, [])]
        for namespace, pod in self.others:
            assert await self.field.has_pod(namespace, pod), f"{namespace}/{pod} is gone"


def _pinned(name: str) -> dict[str, Any]:
    """Here is no webhook that adds it."""
    mine = {"key": SLICE, "operator": "Equal", "value": name, "effect": "NoSchedule"}
    return {"nodeSelector": {SLICE: name}, "tolerations": [mine]}


async def consistent(field: Field) -> None:
    """All nodes or none, and each node's slice is there."""
    nodes = (await field.admin.list(Node, labels=f"{POOL}={field.pool}")).items
    slices = {
        each.metadata.name: each
        for each in (await field.admin.list(Slice)).items
        if each.spec.selector == field.selector
    }
    held: dict[str, list[str]] = {name: [] for name in slices}
    for node in nodes:
        label = node.metadata.labels.get(SLICE)
        if label is None:
            assert is_shared(node), f"{node.metadata.name} has taints of no slice"
            continue
        assert label in slices, f"{node.metadata.name} is in {label}, which is gone"
        held[label].append(node.metadata.name)
    for name, found in slices.items():
        assert len(held[name]) in (0, found.spec.node_count), f"{name} has {held[name]}"
        assert sorted(found.status.nodes) == sorted(held[name]), found.status


@pytest.mark.timeout(3600)
async def test_all_is_well_when_the_operator_is_killed_at_any_write_of_a_slice(
    client: Client, api_server: ApiServer
) -> None:
    async def once(cut_at: int | None, *, after: bool) -> int:
        namespace = f"chaos-{secrets.token_hex(4)}"
        await client.create(Namespace.named(namespace))
        async with playing(api_server) as field:
            script = Script(field)
            trial = Trial(TENANCY, script.play, script.well)
            return (await survive(trial, client, namespace, cut_at, after=after)).writes

    writes = await once(None, after=False)
    cuts = [(number, after) for number in range(1, writes + 1) for after in (False, True)]
    for cut_at, after in cuts if LONG else random.sample(cuts, CUTS):
        try:
            await once(cut_at, after=after)
        except AssertionError as error:
            moment = "after" if after else "before"
            raise AssertionError(f"killed {moment} write {cut_at} of {writes}: {error}") from error


class People:
    """Make claims and slices of all sizes for the same few nodes, use them, and end them."""

    def __init__(self, field: Field, chance: random.Random) -> None:
        self._field, self._chance = field, chance

    async def act(self) -> None:
        field, number = self._field, self._chance.randrange(3)
        with contextlib.suppress(KubeError):
            match self._chance.choice(("slice", "claim", "use", "free", "end", "leave")):
                case "slice":
                    await field.slice(
                        f"s{number}",
                        claim=f"c{number}",
                        node_count=self._chance.randint(1, 3),
                        grace_seconds=1,
                    )
                case "claim":
                    await field.claim(f"c{number}", mode="Manual")
                case "use":
                    await field.use(f"c{number}", f"n{number}-{secrets.token_hex(2)}")
                case "free":
                    await field.admin.delete(SliceClaim, f"c{number}", field.acme)
                case "end":
                    await field.admin.delete(Slice, f"s{number}-{field.pool}")
                case "leave":
                    for each in (await field.admin.list(SubNamespace, field.acme)).items[:1]:
                        await field.admin.delete(SubNamespace, each.metadata.name, field.acme)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
async def test_two_operators_in_a_storm_share_no_node_twice(
    seed: int, client: Client, api_server: ApiServer, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    async with playing(api_server) as field, operators(api_server, TENANCY, tmp_path) as crew:
        await field.tenants({})
        nodes = [await field.node(name) for name in ("a", "b", "c", "d")]
        stay = [("default", await field.pod("default", node)) for node in nodes]
        people = People(field, chance)
        await rage(people.act, crew, api_server, chance, seconds=SECONDS, restarts=LONG)

        async def calm() -> None:
            await consistent(field)
            await asyncio.sleep(1.0)
            await consistent(field)

        await eventually(calm, within=PATIENCE, not_yet=(AssertionError, KubeError))
        for namespace, pod in stay:
            assert await field.has_pod(namespace, pod), f"{namespace}/{pod} is gone"
