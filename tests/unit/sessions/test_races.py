"""Two operators at once, at the moments when it matters.

One is held between two of its writes while the other acts; then it goes on, with what it
believed before.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import Session
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Key
from tests.unit.sessions.world import NAMESPACE, CutOff, Operator, World, pod_template

UDP = {"name": "game", "port": 7777, "protocol": "UDP"}


async def ready(**spec: Any) -> tuple[World, Operator]:
    world = World()
    world.template(**spec)
    world.session()
    operator = Operator(world)
    await world.advance(1, operator)
    return world, operator


class Held:
    """An operator that stops before a certain request, until it is let go."""

    def __init__(self, operator: Operator, verb: str, kind: str) -> None:
        self.operator = operator
        operator.client.raw = (verb, kind)

    async def __aenter__(self) -> Held:
        self.task = asyncio.create_task(self.operator.work())
        for _ in range(50):
            await asyncio.sleep(0)
        assert not self.task.done(), "it never came to that request"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.operator.client.raw = None
        self.operator.client.let_through.set()
        await self.task


async def test_a_pod_of_the_pool_goes_to_one_of_two_sessions() -> None:
    world, first = await ready(reuse="Template", reutilizeTimeoutSeconds=60)
    world.session("t")
    world.clients(ann=True)
    await world.advance(1, first)
    world.clients(ann=None)
    await world.advance(1, first)
    second = Operator(world)
    await second.work()
    (pod,) = world.pods()
    world.clients("s", bob=True)
    first.watch()
    world.clients("t", cat=True)
    async with Held(first, "patch", "Lease"):
        second.watch()
        await second.only("t")
        world.check(settled=False)
        assert world.pod_of("cat", "t") == pod
    world.check(settled=False)
    await world.advance(2, first, second)
    world.check()
    assert world.pod_of("bob") != world.pod_of("cat", "t")


async def test_a_warm_pod_that_was_claimed_is_not_retired() -> None:
    world, first = await ready(podTemplates=[pod_template(warmPods=1)])
    second = Operator(world)
    await second.work()
    world.edit_template(podTemplates=[pod_template(warmPods=0)])
    first.watch()
    world.now += 1
    async with Held(first, "create", "Lease"):
        world.clients(ann=True)
        second.watch(kinds=["Session"])
        await second.work()
        assert world.get().status.clients["ann"].ready
    await world.advance(2, first, second)
    world.check()
    assert world.get().status.recoveries == 0


async def test_a_port_is_not_freed_by_somebody_who_looks_at_the_past() -> None:
    parts = [pod_template(maxClients=0, ports=[UDP])]
    world, first = await ready(podTemplates=parts)
    world.clients(ann=True)
    await world.settle(first)
    late = Operator(world)
    await late.work()
    world.clients(bob=True)
    first.watch()
    async with Held(first, "patch", "Session"):
        assert len(world.store.all(PortClaim)) == 2
        late.watch(kinds=["PortClaim"])
        await late.work()
    world.check(settled=False)
    await world.settle(first, late)
    world.check()


async def test_a_port_that_is_taken_up_again_is_not_freed() -> None:
    parts = [pod_template(maxClients=0, ports=[UDP])]
    world, first = await ready(podTemplates=parts)
    world.clients(ann=True)
    await world.settle(first)
    # An operator claims a port for bob, and is killed before it can say so.
    world.clients(bob=True)
    first.watch()
    first.cut_at, first.cut_after = first.count + 1, True
    with contextlib.suppress(CutOff):
        await first.work()
    world.clients(bob=None)
    first, second = Operator(world), Operator(world)
    async with Held(first, "delete", "PortClaim"):
        world.clients(bob=True)
        second.watch(kinds=["Session"])
        await second.work()
        assert world.get().status.clients["bob"].ready
    world.check(settled=False)
    await world.settle(first, second)
    world.check()


async def test_two_operators_do_not_seat_two_clients_in_one_seat() -> None:
    world, first = await ready(reutilizeTimeoutSeconds=60)
    world.clients(ann=True)
    await world.settle(first)
    world.clients(ann=None)
    await world.settle(first)
    second = Operator(world)
    await second.work()
    world.clients(bob=True)
    first.watch()
    async with Held(first, "patch", "Session"):
        world.clients(bob=None, cat=True)
        second.watch()
        await second.work()
    world.check(settled=False)
    await world.settle(first, second)
    world.check()
    assert len(world.pods()) == 1


async def test_an_idle_pod_is_not_removed_under_somebody_who_just_got_it() -> None:
    world, first = await ready(reutilizeTimeoutSeconds=10)
    world.clients(ann=True)
    await world.settle(first)
    world.clients(ann=None)
    await world.settle(first)
    second = Operator(world)
    await second.work()
    world.now += 11  # the time of the pod is up
    async with Held(first, "patch", "Session"):
        world.now -= 5  # the clock of the other one is slow
        world.clients(bob=True)
        second.watch()
        await second.work()
        world.now += 5
        assert world.get().status.clients["bob"].ready
    await world.settle(first, second)
    world.check()
    assert world.get().status.recoveries == 0


async def test_pods_that_are_not_seen_yet_are_not_taken_for_dead() -> None:
    """The stream of sessions is ahead of the stream of pods."""
    world, first = await ready()
    late = Operator(world)
    await late.work()
    world.clients(ann=True)
    await world.settle(first)
    late.watch(kinds=["Session"])
    await late.work()
    assert world.get().status.recoveries == 0
    assert len(world.pods()) == 1
    await world.settle(first, late)
    world.check()


async def test_the_pods_of_a_session_that_is_not_seen_yet_are_not_removed() -> None:
    """The stream of pods is ahead of the stream of sessions."""
    world, first = await ready()
    late = Operator(world)
    await late.work()
    world.session("new", ann=True)
    await world.settle(first)
    late.watch(kinds=["Pod", "PortClaim", "Lease"])
    await late.work()
    assert len(world.pods()) == 1
    await world.settle(first, late)
    world.check()


async def test_a_session_of_the_same_name_does_not_inherit() -> None:
    """One operator still carries out the plan of a session that is gone."""
    world, first = await ready()
    second = Operator(world)
    await second.work()
    world.clients(ann=True)
    first.watch()
    async with Held(first, "patch", "Session"):
        world.delete(Session, "s")
        world.session(bob=True)
        second.watch()
        await second.work()
    await world.settle(first, second)
    world.check()
    assert not any("ann" in each.status.clients for each in world.store.all(Session))


async def test_a_pod_that_comes_after_its_session_is_gone_is_removed() -> None:
    world, first = await ready()
    world.clients(ann=True)
    first.watch()
    async with Held(first, "create", "Pod"):
        world.delete(Session, "s")
        second = Operator(world)
        await second.work()
    await world.settle(first, second)
    world.check()
    assert not world.pods(alive=False)
    assert Key(NAMESPACE, "s") not in world.store.objects[Session.KIND]
    assert not world.store.all(Pod)


async def test_a_pod_that_was_given_back_is_not_removed_under_its_next_client() -> None:
    """By an operator that has heard that a session no longer has it, but not who has it now."""
    world, operator = await ready(reuse="Template", reutilizeTimeoutSeconds=60)
    world.clients(ann=True)
    await world.advance(1, operator)
    pod, slow = world.pod_of("ann"), Operator(world)
    slow.watch()
    await slow.work()
    world.clients(ann=None)
    await world.advance(1, operator)
    world.session("t", bob=True)
    await world.advance(1, operator)
    assert world.pod_of("bob", "t") == pod
    slow.watch(kinds=["Session", "Pod"])
    for _ in range(3):
        await slow.only("s")
    assert pod in world.pods()
    await world.advance(1, operator, slow)
    assert world.pod_of("bob", "t") == pod
    world.check()
