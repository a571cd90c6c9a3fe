"""The placement controller: sees, plans, writes the status, and does what follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgewise.api.placement import NAME_LABEL, LatencyPlacement, Phase
from edgewise.kube.kinds.apps import Deployment, ReplicaSet
from edgewise.kube.kinds.core import Node, Pod
from edgewise.kube.objects import Key, Object
from edgewise.placement.apply import Writer, clean, worth_writing
from edgewise.placement.board import VoteBoard
from edgewise.placement.metrics import PlacementMetrics
from edgewise.placement.observe import (
    Memory,
    by_placement,
    by_target,
    newest,
    observe,
    replica_sets_of,
)
from edgewise.placement.observed import Observed, Role
from edgewise.placement.plan import Plan, plan
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import CacheView, mapped
from edgewise.workloads.node_changes import NodeChanges


def placement_of_label(obj: Object, _: CacheView) -> Iterable[Key]:
    name = obj.metadata.labels.get(NAME_LABEL)
    return (Key(obj.metadata.namespace, name),) if name else ()


def placements_of_target(deployment: Deployment, cache: CacheView) -> Iterable[Key]:
    key = f"{deployment.metadata.namespace}/{deployment.metadata.name}"
    return [each.key for each in cache[LatencyPlacement].by(by_target, key)]


def node_facts(node: Node) -> object:
    """What of a node a placement looks at."""
    ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    return ready, dict(node.metadata.labels), node.spec


class PlacementController(Controller[LatencyPlacement]):
    workers = 4
    wakes_on_status = False

    def __init__(self, board: VoteBoard, *, metrics: PlacementMetrics | None = None) -> None:
        self._board = board
        self._metrics = metrics or PlacementMetrics()
        self._memory: dict[Key, Memory] = {}
        self._nodes = NodeChanges(node_facts)
        self.watches = (
            mapped(Pod, placement_of_label, labels=NAME_LABEL),
            mapped(ReplicaSet, placement_of_label, labels=NAME_LABEL),
            mapped(Deployment, placements_of_target),
            mapped(Node, self.placements_of_node),
        )
        board.on_news(lambda key: self.wake(key))  # noqa: PLW0108 - given later

    def placements_of_node(self, node: Node, cache: CacheView) -> Iterable[Key]:
        """All, if something changed that they look at: nodes report every few seconds, and each
        report would have every placement look at every node."""
        if not self._nodes.matters(node.key, cache[Node].get(node.key)):
            return ()
        return [each.key for each in cache[LatencyPlacement]]

    async def reconcile(self, placement: LatencyPlacement) -> Requeue | None:
        if placement.metadata.deleting:
            await self._leave(placement.key)
            return None
        now, memory = self.clock(), self._memory.setdefault(placement.key, Memory())
        seen = observe(placement, self.cache, self._board, memory, now)
        decided = plan(seen, now)
        writer = Writer(self.api, self.cache[Pod], placement, self._template(placement))
        before = placement.status
        searching = decided.status.phase == Phase.SEARCHING
        if worth_writing(before, decided.status, age=now - memory.written, searching=searching):
            await writer.write_status(decided.status)
            memory.written = now
            self._tell(placement, decided)
        await writer.carry_out(decided, seen)
        memory.refused |= writer.refused
        self._measure(placement, seen)
        return self._again(decided)

    def _again(self, decided: Plan) -> Requeue:
        """At once after an order: the next one may follow from it."""
        if decided.create or decided.cost or decided.promote or decided.uncost or decided.delete:
            return Requeue.after(0.02)
        return Requeue.at(decided.deadline)

    def _template(self, placement: LatencyPlacement) -> dict[str, Any]:
        key = Key(placement.metadata.namespace, placement.spec.target.name)
        deployment = self.cache[Deployment].get(key)
        if deployment is None:
            return {}
        current = newest(replica_sets_of(self.cache, placement), deployment)
        template = (current or deployment).spec.get("template")
        return template if isinstance(template, dict) else {}

    def _tell(self, placement: LatencyPlacement, decided: Plan) -> None:
        before, after = placement.status, decided.status
        self._metrics.rounds.inc(max(0, after.round - before.round))
        self._metrics.moves.inc(max(0, after.moves - before.moves))
        if after.search.ended_at and after.search.ended_at != before.search.ended_at:
            self._metrics.searches.labels(after.phase).inc()
            self._metrics.search_seconds.observe(after.convergence_seconds)
        for reason, words in decided.told:
            say = self.events.warning if reason.startswith("Sentinel") else self.events.normal
            say(placement, reason, words)

    def _measure(self, placement: LatencyPlacement, seen: Observed) -> None:
        values = [
            seen.heard[pod.uid].rtt_ms
            for pod in seen.pods
            if pod.role is Role.REPLICA and pod.live and pod.uid in seen.heard
        ]
        if values:
            meta = placement.metadata
            self._metrics.rtt.labels(meta.namespace, meta.name).set(max(values))

    async def gone(self, key: Key) -> None:
        """Its sentinels go with it, by their owner; a deletion cost of ours would stay."""
        await self._leave(key)

    async def _leave(self, key: Key) -> None:
        self._memory.pop(key, None)
        self._board.forget(key)
        self._metrics.forget(key.namespace, key.name)
        pods = self.cache[Pod].by(by_placement, f"{key.namespace}/{key.name}")
        sets = self.cache[ReplicaSet].by(by_placement, f"{key.namespace}/{key.name}")
        await clean(
            self.api, pods, {each.metadata.labels.get("pod-template-hash") for each in sets}
        )
