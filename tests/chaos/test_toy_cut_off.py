"""The harness takes any domain: the toy of the tests, killed at any of its writes."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import AsyncIterator

import pytest

from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.kinds.core import Namespace
from tests.chaos.harness import Trial, survive
from tests.integration.conftest import ApiServer
from tests.integration.domain.toy import Toy, ToySpec, Workshop

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
CUTS = 2

pytestmark = pytest.mark.chaos


async def play(client: Client, namespace: str) -> None:
    for name, size in (("ball", 1), ("kite", 2), ("top", 3)):
        await client.create(Toy.named(name, namespace, spec=ToySpec(size=size)))
    await client.patch(Toy, "kite", namespace, body={"spec": {"size": 5}})
    await client.delete(Toy, "top", namespace)


async def well(client: Client, namespace: str) -> None:
    toys = (await client.list(Toy, namespace)).items
    assert {toy.metadata.name: toy.status.size for toy in toys} == {"ball": 2, "kite": 10}


@pytest.fixture
async def client(api_server: ApiServer) -> AsyncIterator[Client]:
    async with Client(load_access(api_server.kubeconfig)) as connected:
        yield connected


async def namespace(client: Client) -> str:
    name = f"toys-{secrets.token_hex(4)}"
    await client.create(Namespace.named(name))
    return name


@pytest.mark.timeout(600)
async def test_all_is_well_when_the_operator_of_a_domain_is_killed_at_any_write(
    client: Client,
) -> None:
    trial = Trial(Workshop().domain, play, well)
    writes = (await survive(trial, client, await namespace(client))).writes
    assert writes > 3
    cuts = [(cut_at, after) for cut_at in range(1, writes + 1) for after in (False, True)]
    for cut_at, after in cuts if LONG else random.sample(cuts, CUTS):
        name = await namespace(client)
        first = await survive(trial, client, name, cut_at, after=after)
        # How many writes there are is a matter of who comes first; nearly all are reached.
        assert first.dead.is_set() or cut_at > writes // 2, f"not cut at {cut_at} of {writes}"
