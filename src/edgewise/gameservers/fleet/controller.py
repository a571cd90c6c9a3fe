"""The fleet controller: keeps the number of servers that a Fleet says."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from edgewise.api.games import Allocation, Fleet, Server
from edgewise.gameservers import names
from edgewise.gameservers.fleet.apply import FleetWriter
from edgewise.gameservers.fleet.observe import observe_fleet
from edgewise.gameservers.fleet.plan import FleetPlan, plan_fleet
from edgewise.gameservers.retirement import fleet_of_list, over, unseen
from edgewise.kube.kinds.core import Namespace, Node
from edgewise.kube.objects import Key, Object
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import CacheView, mapped, owned, read

# A fleet has many servers: what changes within this time is looked at together.
AT_MOST_EVERY = 0.25
# Counts in the status follow no faster than this.
COUNTS_EVERY = 2.0
# Servers are removed when the list of them has come by in the watch, with all that was earlier.
UNSEEN_SECONDS = 0.02


def fleet_of_allocation(allocation: Allocation, _: CacheView) -> Iterable[Key]:
    name = allocation.spec.fleet
    return (Key(allocation.metadata.namespace, name),) if name else ()


def fleet_of_unread_allocation(allocation: Object, cache: CacheView) -> Iterable[Key]:
    """The fleet of the server that has its name: none of them is free for certain."""
    server = cache[Server].get(allocation.key)
    owners = server.metadata.owner_references if server is not None else []
    return [Key(allocation.metadata.namespace, each.name) for each in owners if each.controller]


class Memory(msgspec.Struct):
    """What is remembered of one fleet between two passes."""

    uid: str
    numbers: tuple[int, int] = (0, 0)
    looked: float = 0.0
    counted: float = 0.0


class FleetController(Controller[Fleet]):
    workers = 4
    finalizer = names.FLEET_FINALIZER
    wakes_on_status = False

    def __init__(self) -> None:
        self._memories: dict[Key, Memory] = {}
        self.watches = (
            owned(Server),
            mapped(Allocation, fleet_of_allocation, unread=fleet_of_unread_allocation),
            read(Namespace),
            read(Node),
        )

    async def reconcile(self, fleet: Fleet) -> Requeue | None:
        memory, now = self._memory(fleet), self.clock()
        if unseen(self.cache[Allocation], fleet.key):
            return Requeue.after(UNSEEN_SECONDS)
        wait = memory.looked + AT_MOST_EVERY - now
        if 0 < wait <= AT_MOST_EVERY:
            return Requeue.after(wait)
        memory.looked = now
        plan = plan_fleet(observe_fleet(fleet, self.cache, memory.numbers), now)
        writer = FleetWriter(self.api, fleet, plan.status.version)
        if plan.reserve is not None:
            fleet = await writer.reserve(plan.reserve[1])
            memory.numbers = plan.reserve
            plan = plan_fleet(observe_fleet(fleet, self.cache, memory.numbers), now)
        if plan.create:
            memory.numbers = (plan.create[-1] + 1, memory.numbers[1])
        # The row of failures is written before what failed is removed, or it would be forgotten.
        if plan.status.failures != fleet.status.failures:
            await writer.write_status(fleet.status, plan.status)
            memory.counted = now
            fleet = self.cache[Fleet].get(fleet.key) or fleet
        if plan.failed:
            self.events.warning(fleet, "ServerFailed", plan.failed)
        await writer.carry_out(plan)
        later = await self._count(fleet, plan, writer, memory)
        if plan.more or plan.retire:
            memory.looked = 0.0
            return Requeue.now()
        moments = [each for each in (plan.deadline, later) if each is not None]
        return Requeue.at(min(moments, default=None))

    async def finalize(self, fleet: Fleet) -> Requeue | None:
        memory, now = self._memory(fleet), self.clock()
        if unseen(self.cache[Allocation], fleet.key):
            return Requeue.after(UNSEEN_SECONDS)
        plan = plan_fleet(observe_fleet(fleet, self.cache, memory.numbers), now)
        if plan.done:
            return None
        writer = FleetWriter(self.api, fleet, plan.status.version)
        await writer.carry_out(plan)
        later = await self._count(fleet, plan, writer, memory)
        return Requeue.now() if plan.retire else Requeue.at(later)

    async def gone(self, key: Key) -> None:
        """Of a fleet that went without us, the lists of servers stay until these have gone."""
        self._memories.pop(key, None)
        for each in self.cache[Allocation].by(fleet_of_list, key):
            if over(each, self.cache[Server]):
                await self.api.delete(each)

    def _memory(self, fleet: Fleet) -> Memory:
        found = self._memories.get(fleet.key)
        if found is None or found.uid != fleet.metadata.uid:
            found = self._memories[fleet.key] = Memory(fleet.metadata.uid)
        return found

    async def _count(
        self, fleet: Fleet, plan: FleetPlan, writer: FleetWriter, memory: Memory
    ) -> float | None:
        """Counts change with every server, and are written only now and then; the answer is
        when to come back for them."""
        now, old, new = self.clock(), fleet.status, plan.status
        if msgspec.structs.replace(new, next=old.next) == old:
            return None
        if 0 <= now - memory.counted < COUNTS_EVERY:
            return memory.counted + COUNTS_EVERY
        memory.counted = now
        await writer.write_status(old, new)
        return None
