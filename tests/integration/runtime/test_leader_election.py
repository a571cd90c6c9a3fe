"""Leader election against a real API server: never two at once, quick hand-over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import ConfigMap, Secret
from edgewise.runtime.controller import Controller
from edgewise.runtime.leading.leadership import Leadership, NotLeading, Timing
from edgewise.runtime.leading.process_mark import is_dead
from edgewise.runtime.manager import Election
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import owned
from edgewise.testing.eventually import eventually
from edgewise.testing.fault_proxy import FaultProxy, Upstream
from edgewise.testing.faults import Asking, Fault, Script
from tests.integration.conftest import ApiServer
from tests.integration.runtime.widgets import Running

QUICK = Timing(lease=4, stop_after=2.0, renew_every=0.3, poll_every=0.2)


@contextlib.asynccontextmanager
async def holding(leadership: Leadership) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(leadership.hold())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_one_leads_and_a_clean_stop_hands_over_before_the_lease_ends(
    client: Client, namespace: str
) -> None:
    first = Leadership(client, "lead", namespace)
    second = Leadership(client, "lead", namespace)
    await asyncio.wait_for(first.acquire(), 5)
    campaign = asyncio.create_task(second.acquire())
    async with holding(first):
        await asyncio.sleep(2.5)  # longer than a renewal and several looks
        assert first.leading
        assert not campaign.done()
        with pytest.raises(NotLeading):
            second.permit()
    # These are the product's own times: the bar is about them, not about quick ones.
    released = time.monotonic()
    await first.release()
    assert not first.leading
    await asyncio.wait_for(campaign, 30)
    # The next look finds it: two seconds, and more on a busy machine.
    assert time.monotonic() - released < Timing().stop_after
    assert second.leading
    lease = await client.get(Lease, "lead", namespace)
    assert lease.spec.holder_identity == second.identity
    assert lease.spec.lease_transitions == 1


async def test_when_the_leader_falls_silent_it_stops_before_another_one_starts(
    client: Client, namespace: str
) -> None:
    first = Leadership(client, "lead", namespace, timing=QUICK)
    second = Leadership(client, "lead", namespace, timing=QUICK)
    await asyncio.wait_for(first.acquire(), 5)
    acted_at = {"first": 0.0, "second": 0.0}
    silenced = time.monotonic()
    campaign = asyncio.create_task(second.acquire())

    def look() -> bool:
        now = time.monotonic()
        assert not (first.leading and second.leading)
        if first.leading:
            acted_at["first"] = now
        if second.leading and not acted_at["second"]:
            acted_at["second"] = now
        return campaign.done()

    await eventually(look, every=0.005)
    look()
    # The holder had ended a while before, and nobody waited for the whole lease.
    assert acted_at["second"] - acted_at["first"] > 0.5
    assert acted_at["second"] - silenced < QUICK.lease


async def test_of_many_candidates_one_wins(client: Client, namespace: str) -> None:
    candidates = [Leadership(client, "lead", namespace, timing=QUICK) for _ in range(10)]
    tasks = [asyncio.create_task(each.acquire()) for each in candidates]
    await eventually(lambda: any(each.leading for each in candidates))
    await asyncio.sleep(0.5)
    assert sum(each.leading for each in candidates) == 1
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@pytest.mark.parametrize("now_held_by", ["", "somebody else"])
async def test_a_release_knows_of_a_renewal_whose_answer_it_did_not_wait_for(
    client: Client, namespace: str, now_held_by: str
) -> None:
    leadership = Leadership(client, "lead", namespace, timing=QUICK)
    await asyncio.wait_for(leadership.acquire(), 5)
    holder = now_held_by or leadership.identity
    body = {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 7}}
    await client.patch(Lease, "lead", namespace, body=body)
    await leadership.release()
    lease = await client.get(Lease, "lead", namespace)
    assert lease.spec.holder_identity == now_held_by


async def test_a_lease_that_was_taken_away_is_lost_at_the_next_renewal(
    client: Client, namespace: str
) -> None:
    leadership = Leadership(client, "lead", namespace, timing=QUICK)
    await asyncio.wait_for(leadership.acquire(), 5)
    async with holding(leadership) as held:
        await client.patch(
            Lease, "lead", namespace, body={"spec": {"holderIdentity": "somebody else"}}
        )
        await asyncio.wait_for(held, 5)
        assert not leadership.leading


async def test_a_deleted_lease_is_not_taken_from_under_its_holder(
    client: Client, namespace: str
) -> None:
    first = Leadership(client, "lead", namespace, timing=QUICK)
    second = Leadership(client, "lead", namespace, timing=QUICK)
    await asyncio.wait_for(first.acquire(), 5)
    campaign = asyncio.create_task(second.acquire())
    async with holding(first) as held:
        await eventually(lambda: second._seen_held > 0)
        await client.delete(Lease, "lead", namespace)
        await asyncio.wait_for(held, 5)
        assert not first.leading
        assert not campaign.done()
    await asyncio.wait_for(campaign, QUICK.lease + 2)
    assert second.leading


class Recording(Controller[ConfigMap]):
    """Notes when it acts; two of them must never act at the same time."""

    def __init__(self, name: str, acting: list[str]) -> None:
        self.label = name
        self.acting = acting

    async def reconcile(self, config: ConfigMap) -> Requeue | None:
        assert not [other for other in self.acting if other != self.label]
        self.acting.append(self.label)
        try:
            await self.api.patch(config, {"data": {"by": self.label}})
        finally:
            self.acting.remove(self.label)
        return Requeue.after(0.02)


async def test_a_second_manager_waits_with_warm_caches_and_takes_over(
    client: Client, namespace: str, run: Running
) -> None:
    await client.create(ConfigMap.named("a", namespace))
    acting: list[str] = []
    election = Election("lead", namespace, timing=QUICK)

    async def written_by(name: str) -> bool:
        return (await client.get(ConfigMap, "a", namespace)).data.get("by") == name

    second = run(client, Recording("second", acting), election=election, until_acting=False)
    async with run(client, Recording("first", acting), election=election):
        await eventually(lambda: written_by("first"))
        standby = await second.__aenter__()
        await eventually(lambda: standby.caches.synced)
        assert not standby.acting
        with pytest.raises(NotLeading):
            await standby.api.create(ConfigMap.named("forbidden", namespace))
    stopped = time.monotonic()
    await eventually(lambda: written_by("second"))
    assert time.monotonic() - stopped < Timing().stop_after
    await second.__aexit__(None, None, None)


async def test_a_manager_that_lost_the_lease_stops_and_may_act_again_later(
    client: Client, namespace: str, run: Running
) -> None:
    await client.create(ConfigMap.named("a", namespace))
    controller = Recording("only", [])
    async with run(client, controller, election=Election("lead", namespace, QUICK)) as manager:

        async def hold_by(somebody: str) -> None:
            body = {"spec": {"holderIdentity": somebody}}
            await client.patch(Lease, "lead", namespace, body=body)

        await hold_by("somebody else")
        await eventually(lambda: not manager.acting)
        left = await client.get(ConfigMap, "a", namespace)
        await asyncio.sleep(0.3)  # a reconcile would come every 0.02 s
        now = await client.get(ConfigMap, "a", namespace)
        assert now.metadata.resource_version == left.metadata.resource_version
        await hold_by("")
        await eventually(lambda: manager.acting)
        await client.patch(ConfigMap, "a", namespace, body={"data": {"by": "nobody"}})

        async def written_again() -> bool:
            return (await client.get(ConfigMap, "a", namespace)).data["by"] == "only"

        await eventually(written_again)


LEADER = """
import asyncio, sys
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.runtime.leading.leadership import Leadership

async def main():
    async with Client(load_access(sys.argv[1])) as client:
        leadership = Leadership(client, "lead", sys.argv[2])
        await leadership.acquire()
        print("leading", flush=True)
        await leadership.hold()

asyncio.run(main())
"""


@pytest.mark.parametrize("knows", [True, False], ids=["here", "elsewhere"])
async def test_after_kill_another_one_leads_within_the_lease_duration(
    client: Client,
    namespace: str,
    api_server: ApiServer,
    tmp_path: Path,
    knows: bool,
) -> None:
    """One on the same machine sees that the holder is dead; one on another has to wait."""
    program = tmp_path / "leader.py"
    program.write_text(LEADER)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(program),
        str(api_server.kubeconfig),
        namespace,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 20) == b"leading\n"
        dead = is_dead if knows else lambda _: False
        successor = Leadership(client, "lead", namespace, dead=dead)
        campaign = asyncio.create_task(successor.acquire())
        # Killed right after a renewal, which is the longest way to go.
        renewed = (await client.get(Lease, "lead", namespace)).spec.renew_time

        async def renewed_again() -> bool:
            return (await client.get(Lease, "lead", namespace)).spec.renew_time != renewed

        await eventually(renewed_again)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        killed = time.monotonic()
        await process.wait()
    await asyncio.wait_for(campaign, 30)
    # 5 s where it knows, and some more on a busy machine.
    assert time.monotonic() - killed < (Timing().stop_after if knows else Timing().lease + 5)


class OneSecret(Controller[ConfigMap]):
    watches = (owned(Secret),)

    async def reconcile(self, source: ConfigMap) -> Requeue | None:
        if source.metadata.name == "source" and not self.cache[Secret].owned_by(source):
            secret = Secret.named("", source.metadata.namespace)
            secret.metadata.generate_name = "made-"
            secret.metadata.owner_references = [source.owner_reference()]
            await self.api.create(secret)
        return None


class LateCreate(Script):
    """The first write after `armed` is carried out late; the Lease's own before it are not."""

    armed = False

    def choose(self, asking: Asking) -> Fault | None:
        if asking is not Asking.WRITE or not self.armed:
            return None
        self.armed = False
        return Fault.LATE


async def test_nobody_takes_over_while_a_write_may_still_be_carried_out(
    client: Client, namespace: str, api_server: ApiServer, run: Running
) -> None:
    election = Election("lead", namespace, QUICK)
    script = LateCreate()
    async with (
        Upstream(load_access(api_server.kubeconfig)).connected() as upstream,
        FaultProxy(upstream, script, late=1.0).running() as proxy,
        Client(proxy.access) as faulty,
    ):
        async with run(faulty, OneSecret(), election=election) as first:
            # The next renewal would be the first write.
            assert first.leadership is not None
            await eventually(lambda: first.leadership.remaining > 1.9, every=0.01)
            script.armed = True
            await client.create(ConfigMap.named("source", namespace))
            await eventually(lambda: not script.armed, every=0.001)
        async with run(client, OneSecret(), election=election):
            await proxy.all_carried_out()
            await eventually(lambda: has_secrets(client, namespace, 1))
    assert len((await client.list(Secret, namespace)).items) == 1


async def has_secrets(client: Client, namespace: str, count: int) -> None:
    assert len((await client.list(Secret, namespace)).items) == count
