"""The plan while it is made: a status to be, and the orders that follow once it is written."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from edgewise.api.placement import LatencyPlacementStatus, Phase, Ranked, Sentinel, Visited, Why
from edgewise.placement.observed import NodeHere, Observed, PodHere, Role
from edgewise.placement.ranking import Value, by_node
from edgewise.workloads.deadlines import moment


class Promote(msgspec.Struct, frozen=True):
    """Take our owner reference off, and give it the hash of the target's pods: one patch."""

    pod: PodHere
    revision: str


class Orders(msgspec.Struct, kw_only=True):
    """In the order in which they are carried out, after the status was written."""

    delete: list[PodHere] = []
    create: list[Sentinel] = []
    cost: list[PodHere] = []
    promote: list[Promote] = []
    uncost: list[PodHere] = []


class Draft:
    def __init__(self, seen: Observed, now: float) -> None:
        self.seen = seen
        self.now = now
        self.status: LatencyPlacementStatus = msgspec.convert(
            msgspec.to_builtins(seen.placement.status), LatencyPlacementStatus
        )
        self.orders = Orders()
        self.told: list[tuple[str, str]] = []  # reason and words, for people
        self._deadlines: list[float] = []
        self.waits_for = ""  # what the search waits for, in words

    # What is there ------------------------------------------------------------------

    @property
    def replicas(self) -> list[PodHere]:
        return [pod for pod in self.seen.pods if pod.role is Role.REPLICA and pod.live]

    @property
    def sentinels(self) -> dict[str, PodHere]:
        return {pod.name: pod for pod in self.seen.pods if pod.role is Role.SENTINEL}

    @property
    def wanted(self) -> int:
        """R: what the target itself asks for."""
        return self.seen.target.replicas if self.seen.target else 0

    @property
    def all_ready(self) -> bool:
        """Whether R replicas are ready, and none of them is on its way."""
        replicas = self.replicas
        return len(replicas) >= self.wanted > 0 and all(pod.ready for pod in replicas)

    @property
    def searching(self) -> bool:
        return self.status.search.began_at is not None and self.status.search.ended_at is None

    def node(self, name: str) -> NodeHere | None:
        return next((node for node in self.seen.nodes if node.name == name), None)

    def usable(self, name: str) -> bool:
        node = self.node(name)
        return node is not None and node.usable

    def visited(self) -> set[str]:
        return {each.node for each in self.status.visited}

    def held(self) -> set[str]:
        """Nodes on which a replica runs, or one that becomes a replica."""
        return {
            pod.node
            for pod in self.seen.pods
            if pod.role in (Role.REPLICA, Role.PROMOTED) and pod.live and pod.node
        }

    def measured(self) -> dict[str, Value]:
        """What is known of the nodes that run pods of the target now."""
        return by_node(
            value for pod in self.seen.pods if (value := self.seen.heard.get(pod.uid)) is not None
        )

    def fresh(self, pod: PodHere) -> Value | None:
        """What was reported of a pod over the time of observation, begun after it was ready."""
        value = self.seen.heard.get(pod.uid)
        if value is None or not pod.ready:
            return None
        t_o = self.seen.observation
        begun_after = value.last >= pod.ready_since + t_o * 0.9
        return value if begun_after and value.last >= self.now - max(5 * t_o, 5.0) else None

    # What is to be ------------------------------------------------------------------

    def visit(self, nodes: Iterable[str], why: Why) -> None:
        known = self.visited()
        for node in nodes:
            if node not in known:
                self.status.visited.append(Visited(node=node, why=why))

    def at(self, moment: float) -> None:
        """Look again then."""
        self._deadlines.append(moment)

    @property
    def deadline(self) -> float | None:
        return min(self._deadlines, default=None)

    def end_round(self) -> None:
        self.status.sentinels = []
        self.status.decision = None

    def remember_sentinels(self) -> None:
        """Add the time that the sentinels of a round cost."""
        began = moment(self.status.round_at)
        if began is not None:
            count = len(self.status.sentinels)
            spent = max(0.0, self.now - began) * count
            self.status.sentinel_seconds = round(self.status.sentinel_seconds + spent, 3)

    def pause(self) -> None:
        self.status.phase = Phase.PAUSED
        self.end_round()

    def rank_of(self, node: str) -> Ranked | None:
        return next((each for each in self.status.ranking if each.node == node), None)
