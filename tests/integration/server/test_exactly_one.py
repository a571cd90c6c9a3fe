"""The same client joins two clusters at once, through two replicas, with faults everywhere."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator

import pytest

from edgewise.kube.client import Client
from edgewise.runtime.errors import Unavailable
from edgewise.sessions.hub.errors import AlreadySeated
from edgewise.sessions.hub.joining import JoinRequest
from edgewise.sessions.hub.lifecycle import NewSession
from edgewise.testing.eventually import eventually
from edgewise.testing.faults import Asking, Fault
from edgewise.testing.hub_rig import HubRig
from edgewise.testing.sessions_replica import SessionsReplica

ROUNDS = 200
CONVERGED_SECONDS = 20.0


class Trouble:
    """Faults of the kind that happen to single requests: now and then, and from a seed."""

    def __init__(self, seed: int, rate: float) -> None:
        self._chance = random.Random(seed)
        self._rate = rate
        self.on = True
        self.count = 0

    def choose(self, asking: Asking) -> Fault | None:
        if not self.on or asking is Asking.LIST or self._chance.random() > self._rate:
            return None
        self.count += 1
        if asking is Asking.EVENT:
            return self._chance.choice([Fault.CUT, Fault.DELAY, Fault.DELAY, Fault.REPEAT])
        if asking is Asking.WATCH:
            return self._chance.choice([Fault.CUT, Fault.ERROR, Fault.GONE])
        if asking is Asking.READ:
            return self._chance.choice([Fault.CUT, Fault.ERROR, Fault.DELAY])
        return self._chance.choice([Fault.CUT, Fault.LOST, Fault.ERROR, Fault.DELAY])


@pytest.fixture
def seeds() -> Iterator[int]:
    return iter(range(int(os.environ.get("EDGEWISE_SEED", "1")), 1_000_000))


async def told(replica: SessionsReplica, session, client: str, location: str) -> str:
    """Where the caller is told that the client sits; like the SDK, it tries again when asked."""
    for _ in range(100):
        try:
            joined = await replica.joining.join(
                session, client, JoinRequest(location=location, lease_seconds=0)
            )
        except AlreadySeated as refused:
            return refused.location
        except Unavailable:
            await asyncio.sleep(0.02)
        else:
            return joined.binding.spec.location
    raise AssertionError(f"{client} never got an answer")


async def test_200_rounds_end_with_one_seat_each(
    rig: HubRig, client: Client, seeds: Iterator[int]
) -> None:
    replicas = [await rig.add_replica() for _ in range(2)]
    new = NewSession(template="demo", name="room-1")
    session, _ = await replicas[0].lifecycle.create(new, owner="arena")
    await eventually(lambda: all(r.hub.session("room-1") for r in replicas))
    troubles = []
    for proxy in (*rig.hub_proxies, *(member.proxy for member in rig.members.values())):
        trouble = Trouble(next(seeds), rate=0.1)
        troubles.append(trouble)
        proxy.faults = trouble

    for number in range(ROUNDS):
        who = f"client-{number}"
        answers = await asyncio.gather(
            told(replicas[0], session, who, "porto"),
            told(replicas[1], session, who, "paris"),
        )
        binding = (await rig.bindings())[who]
        assert set(answers) == {binding.spec.location}, who

    assert sum(trouble.count for trouble in troubles) > ROUNDS / 2
    for trouble in troubles:
        trouble.on = False

    async def one_seat_each() -> None:
        bindings = await rig.bindings()
        seats = await rig.seats("room-1")
        assert len(bindings) == ROUNDS
        for cluster in ("porto", "paris"):
            expected = {c for c, binding in bindings.items() if binding.spec.location == cluster}
            assert set(seats[cluster]) == expected
        assert all(
            entry == {"connected": True} for each in seats.values() for entry in each.values()
        )

    await eventually(one_seat_each, within=CONVERGED_SECONDS, every=0.2)
    used = {binding.spec.location for binding in (await rig.bindings()).values()}
    assert used == {"porto", "paris"}
