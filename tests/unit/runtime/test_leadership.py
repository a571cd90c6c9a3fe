"""Leader election in virtual time: slow, lost and repeated requests, drifting clocks, pauses.

Whatever happens, no two candidates may act at the same moment; and when the trouble is over,
one of them leads.
"""

from __future__ import annotations

import asyncio
import copy
import os
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.kube.errors import AlreadyExists, Conflict, NotFound, ServerError, Unreachable
from edgewise.kube.kinds.coordination import Lease, LeaseSpec
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.leading.leadership import (
    PROCESS_ANNOTATION,
    STOPS_ANNOTATION,
    Leadership,
    NotLeading,
    Timing,
    patience,
)
from edgewise.testing.virtual_time import run_in_virtual_time

TROUBLE_SECONDS = 150.0


class FakeApi:
    """One Lease, kept as the API server keeps it."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 0
        self.trouble = False

    def store(self, lease: Lease) -> Lease:
        self.version += 1
        lease.metadata.resource_version = str(self.version)
        self.lease = lease
        return copy.deepcopy(lease)


class Network:
    """One candidate's way to the API server: slow, lossy, and cut off for a while."""

    def __init__(self, api: FakeApi, random: Random) -> None:
        self.api = api
        self.random = random
        self.cut_until = 0.0

    async def _passage(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self.cut_until:
            await asyncio.sleep(self.random.choice([0.0, 1.0, 5.0]))
            raise Unreachable("cut off")
        if not self.api.trouble:
            await asyncio.sleep(0.01)
            return
        await asyncio.sleep(self.random.choice([0.01, 0.01, 0.01, 0.2, 2.0]))
        if self.random.random() < 0.05:
            raise ServerError(500)

    async def get(self, kind: type[Lease], name: str, namespace: str) -> Lease:
        await self._passage()
        if self.api.lease is None:
            raise NotFound(404)
        answer = copy.deepcopy(self.api.lease)
        await self._passage()
        return answer

    async def create(self, lease: Lease) -> Lease:
        await self._passage()
        if self.api.lease is not None:
            raise AlreadyExists(409)
        answer = self.api.store(copy.deepcopy(lease))
        await self._passage()
        return answer

    async def patch(self, kind: type[Lease], name: str, namespace: str, *, body: dict) -> Lease:
        # A request that was sent is carried out, also when nobody waits for it any more.
        sent = asyncio.ensure_future(self._patch(body))
        sent.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(sent)

    async def _patch(self, body: dict) -> Lease:
        await self._passage()
        if self.api.lease is None:
            raise NotFound(404)
        if body["metadata"]["resourceVersion"] != self.api.lease.metadata.resource_version:
            raise Conflict(409)
        lease = copy.deepcopy(self.api.lease)
        spec = body["spec"]
        lease.metadata.annotations = body["metadata"]["annotations"]
        lease.spec.holder_identity = spec["holderIdentity"]
        lease.spec.lease_duration_seconds = spec["leaseDurationSeconds"]
        lease.spec.renew_time = spec["renewTime"]
        lease.spec.lease_transitions = spec.get("leaseTransitions", lease.spec.lease_transitions)
        answer = self.api.store(lease)
        await self._passage()
        return answer


async def campaign(leadership: Leadership, random: Random, api: FakeApi) -> None:
    while True:
        await leadership.acquire()
        holding = asyncio.ensure_future(leadership.hold())
        # Sometimes a leader steps down by itself.
        seconds = 20 + 60 * random.random() if api.trouble else 1e9
        await asyncio.wait((holding,), timeout=seconds)
        holding.cancel()
        await asyncio.wait((holding,))
        await leadership.release()


async def cut_off(networks: dict[Leadership, Network], random: Random) -> None:
    """Again and again somebody loses the network for a while, most often the leader."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(3 + 12 * random.random())
        leaders = [each for each in networks if each.leading]
        victim = random.choice(leaders if leaders and random.random() < 0.8 else list(networks))
        networks[victim].cut_until = loop.time() + 25 * random.random()


async def simulate(seed: int) -> None:
    random = Random(seed)
    loop = asyncio.get_running_loop()
    api = FakeApi()
    api.trouble = True
    networks: dict[Leadership, Network] = {}
    for number in range(3):
        network = Network(api, random)
        # Clocks that began at different times, and do not run at quite the same speed.
        offset, speed = random.random() * 1e6, 1 + (random.random() - 0.5) * 0.01
        candidate = Leadership(
            network,  # type: ignore[arg-type]
            "lead",
            "n",
            identity=f"candidate-{number}",
            clock=lambda: random.random() * 2e9,  # wall clocks are of no use
            monotonic=lambda o=offset, s=speed: o + s * loop.time(),
            chance=random.random,
        )
        networks[candidate] = network
    tasks = [asyncio.ensure_future(campaign(each, random, api)) for each in networks]
    cutting = asyncio.ensure_future(cut_off(networks, random))
    terms: list[str] = []
    while loop.time() < TROUBLE_SECONDS:
        acting = [each.identity for each in networks if each.leading]
        assert len(acting) <= 1, f"{acting} act at once at {loop.time():.2f} s"
        if acting and acting != terms[-1:]:
            terms += acting
        await asyncio.sleep(0.05)
    assert terms, "nobody ever led, so nothing was tested"
    cutting.cancel()
    api.trouble = False
    for network in networks.values():
        network.cut_until = 0.0
    healed = loop.time()
    while not any(each.leading for each in networks):
        assert loop.time() < healed + 20, "nobody leads, and nothing is in the way"
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.wait([*tasks, cutting])


@pytest.mark.chaos
@settings(max_examples=400 if os.environ.get("EDGEWISE_CHAOS") else 60)
@given(seed=st.integers(0, 10**6))
def test_never_two_act_at_once_and_one_leads_in_the_end(seed: int) -> None:
    run_in_virtual_time(simulate(seed))


def test_a_leader_that_cannot_renew_stops_before_anybody_may_take_over() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        api = FakeApi()
        network = Network(api, Random(0))
        leader = Leadership(network, "lead", "n", monotonic=loop.time)  # type: ignore[arg-type]
        await leader.acquire()
        assert api.lease is not None
        written = api.lease

        network.cut_until = 1000.0
        started = loop.time()
        await leader.hold()
        assert not leader.leading
        assert loop.time() - started <= leader.timing.stop_after
        assert loop.time() - started < patience(written, 15)

    run_in_virtual_time(scenario())


def test_after_a_sleep_of_the_machine_nothing_is_written_any_more() -> None:
    async def scenario() -> None:
        now = 100.0
        leader = Leadership(Network(FakeApi(), Random(0)), "lead", "n", monotonic=lambda: now)  # type: ignore[arg-type]
        await leader.acquire()
        leader.permit()
        now += leader.timing.stop_after
        with pytest.raises(NotLeading):
            leader.permit()

    run_in_virtual_time(scenario())


class Processes:
    """Which of them are alive."""

    def __init__(self) -> None:
        self.dead: set[str] = set()

    def candidate(self, api: FakeApi, name: str) -> Leadership:
        loop = asyncio.get_running_loop()
        network = Network(api, Random(0))
        return Leadership(
            network,  # type: ignore[arg-type]
            "lead",
            "n",
            identity=name,
            monotonic=loop.time,
            mark=f"mark-of-{name}",
            dead=lambda mark: mark in self.dead,
        )


def test_a_holder_that_is_seen_dead_is_waited_for_as_long_as_its_last_requests_may_take() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        api, processes = FakeApi(), Processes()
        first, second = processes.candidate(api, "first"), processes.candidate(api, "second")
        await first.acquire()
        holding = asyncio.ensure_future(first.hold())
        campaign = asyncio.ensure_future(second.acquire())
        await asyncio.sleep(10.5)  # it has looked often, and last just now
        holding.cancel()
        processes.dead.add("mark-of-first")
        died = loop.time()
        await campaign
        margin = second.timing.last_requests
        assert margin <= loop.time() - died < margin + 2 * second.timing.poll_every + 0.1

    run_in_virtual_time(scenario())


def test_a_lease_that_is_left_to_expire_is_so_even_when_the_process_is_dead() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        api, processes = FakeApi(), Processes()
        first, second = processes.candidate(api, "first"), processes.candidate(api, "second")
        await first.acquire()
        await first.abandon()
        left = loop.time()
        processes.dead.add("mark-of-first")
        await second.acquire()
        assert loop.time() - left >= 12.0
        # Who leads again is marked again.
        assert api.lease is not None
        assert api.lease.metadata.annotations[PROCESS_ANNOTATION] == "second mark-of-second"

    run_in_virtual_time(scenario())


def held(holder: str, annotation: str = "", duration: int = 15) -> Lease:
    annotations = {STOPS_ANNOTATION: annotation} if annotation else {}
    return Lease(
        metadata=ObjectMeta(name="lead", annotations=annotations),
        spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=duration),
    )


@pytest.mark.parametrize(
    ("lease", "seconds"),
    [
        (held("a", "a 10.0"), 12.5),
        (held("a"), 15.0),
        (held("b", "a 10.0"), 15.0),  # the promise of a holder that is gone
        (held("a", "a 20.0"), 15.0),  # a promise beyond the lease itself
        (held("a", "a soon"), 15.0),
        (held("a", "", 0), 99.0),  # a holder that did not say
    ],
)
def test_how_long_a_silent_holder_is_waited_for(lease: Lease, seconds: float) -> None:
    assert patience(lease, 99.0) == seconds


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease": 10, "stop_after": 10.0},
        {"stop_after": 2.0, "renew_every": 2.0},
        {"poll_every": 3.0},
        {"poll_every": 0.0},
    ],
)
def test_times_that_could_make_two_leaders_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="poll_every ≤ renew_every < stop_after < lease"):
        Timing(**wrong)  # type: ignore[arg-type]
