"""The controller of slices: one slice is one key, and one worker does them all, so that two slices
never reach for the same node at once."""

from __future__ import annotations

from collections.abc import Iterable

from edgewise.api.tenancy import SLICE, TENANT_UID
from edgewise.api.tenancy_slices import Slice, SliceClaim, SliceState
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Namespace, Node, Pod
from edgewise.kube.objects import Key
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.retry import TryAgainNow
from edgewise.runtime.watches import CacheView, mapped
from edgewise.tenancy.metrics import TenancyMetrics
from edgewise.tenancy.slices.apply import remove, write_nodes
from edgewise.tenancy.slices.nodes import is_ending, slice_of, taint_of
from edgewise.tenancy.slices.observe import (
    by_claim,
    claim_of,
    held_nodes,
    made_for_a_claim,
    observe,
    users_of,
)
from edgewise.tenancy.slices.plan import Plan, plan
from edgewise.tenancy.slices.watching import NodePods, on_node

MOST_ROUNDS = 32
# While a budget keeps pods, nothing tells us that it lets them go.
ASK_AGAIN = 1.0
# What was read now, and is not in the cache yet.
LET_THE_CACHE_FOLLOW = 0.2


def slices_of_claim(claim: SliceClaim, cache: CacheView) -> Iterable[Key]:
    named = cache[Slice].by(by_claim, (claim.metadata.namespace, claim.metadata.name))
    return [each.key for each in named]


def slices_of_node(node: Node, cache: CacheView) -> Iterable[Key]:
    """Its own, also one that is gone; and all that still look for nodes."""
    for name in {slice_of(node), taint_of(node)} - {""}:
        yield Key("", name)
    for each in cache[Slice]:
        if len(each.status.nodes) < each.spec.node_count or node.metadata.name in each.status.nodes:
            yield each.key


class SliceController(Controller[Slice]):
    workers = 1
    wakes_on_status = False

    def __init__(self, caches: SharedCaches, *, metrics: TenancyMetrics | None = None) -> None:
        self._caches = caches
        self._pods = NodePods(caches)
        self.metrics = metrics or TenancyMetrics()
        self._began: dict[str, float] = {}
        self.watches = (
            mapped(Node, slices_of_node),
            mapped(SliceClaim, slices_of_claim),
            mapped(Namespace, self._slices_of_namespace, labels=TENANT_UID),
        )

    def _slices_of_namespace(self, namespace: Namespace, _: CacheView) -> Iterable[Key]:
        names = self._pods.slices_with_pods_of(namespace.metadata.name)
        used = namespace.metadata.labels.get(SLICE)
        return [Key("", each) for each in sorted(names | ({used} if used else set()))]

    async def reconcile_key(self, key: Key) -> Requeue | None:
        name = key.name
        found = self.cache[Slice].get(key) or await self._live(name)
        proven: set[str] = set()
        if found is not None and found.status.state == SliceState.PROVISIONED:
            # It was empty when that was written, and its pods are watched since.
            proven.update(found.status.nodes)
        for _ in range(MOST_ROUNDS):
            decided = await self._decide(name, found, proven)
            if decided.delete and found is not None:
                if await self._may_go(found):
                    await self.api.delete(found)
                    found = None
                    continue
                raise TryAgainNow(f"the claim of slice {name} is there after all")
            if decided.writes:
                proven.clear()
                await write_nodes(self.api, decided.writes)
                found = self.cache[Slice].get(key) if found is not None else None
                continue
            if decided.prove and not decided.removals:
                if not await self._prove(name, decided.prove, proven):
                    return Requeue.after(LET_THE_CACHE_FOLLOW)
                continue
            return await self._finish(name, found, decided)
        raise TryAgainNow(f"the nodes of slice {name} take more than {MOST_ROUNDS} rounds")

    async def _live(self, name: str) -> Slice | None:
        """There is none in the cache; nodes are returned only if there is none at all."""
        if not held_nodes(name, self.cache):
            return None
        try:
            return await self.api.get(Slice, name)
        except NotFound:
            return None

    async def _may_go(self, found: Slice) -> bool:
        """A live read: a cache that is behind must cost nobody a slice."""
        ref = found.spec.claim_ref
        if not made_for_a_claim(found) or ref is None or claim_of(found, self.cache) is not None:
            return True
        try:
            claim = await self.api.get(SliceClaim, ref.name, ref.namespace)
        except NotFound:
            return True
        return claim.metadata.deleting or (bool(ref.uid) and claim.metadata.uid != ref.uid)

    async def _decide(self, name: str, found: Slice | None, proven: set[str]) -> Plan:
        claim = claim_of(found, self.cache) if found is not None else None
        employed = bool(users_of(name, claim, self.cache))
        nodes = [
            node.metadata.name
            for node in held_nodes(name, self.cache)
            if employed or taint_of(node) == name or is_ending(node)
        ]
        pods = await self._pods.look_at(name, nodes, lambda: self.wake(Key("", name)))
        return plan(observe(name, found, self.cache, pods, proven), self.clock())

    async def _prove(self, name: str, nodes: Iterable[str], proven: set[str]) -> bool:
        """Read the pods of nodes that look empty, past the cache: a pod may have been bound at
        the last moment."""
        for node in nodes:
            cache = self._caches.of(Pod, on_node(node))
            listed = (await self.api.list(Pod, fields=on_node(node).fields)).items
            known = {each.metadata.uid for each in cache}
            if any(each.metadata.uid not in known for each in listed):
                self.log.debug("slice %s: %s has pods that are not in the cache yet", name, node)
                return False
            proven.add(node)
        return True

    async def _finish(self, name: str, found: Slice | None, decided: Plan) -> Requeue | None:
        kept = await remove(self.api, decided.removals)
        if found is not None and decided.status is not None:
            await self._say(found, decided)
        else:
            self._began.pop(name, None)
            self.metrics.slice_is(name, "")
        if kept:
            return Requeue(delay=ASK_AGAIN, moment=decided.wake_at)
        return Requeue.at(decided.wake_at)

    async def _say(self, found: Slice, decided: Plan) -> None:
        status, name = decided.status, found.metadata.name
        if status is None:
            return
        before = found.status.state
        self.metrics.slice_is(name, status.state)
        if status != found.status:
            await self.api.write_status(found, status)
        if status.state != SliceState.PROVISIONED and decided.removals:
            self._began.setdefault(name, self.clock())
        if status.state != before:
            self._tell(found, before, status.state, status.conditions[0].message)
        if status.state == SliceState.PROVISIONED and before != status.state:
            self.metrics.drained(self.clock() - self._began.pop(name, self.clock()))

    def _tell(self, found: Slice, before: str, state: str, message: str) -> None:
        if state.startswith(SliceState.FAILED):
            self.events.warning(found, "NodesShort", message)
        else:
            self.events.normal(found, state, f"was {before or 'new'}, and is {state}")
