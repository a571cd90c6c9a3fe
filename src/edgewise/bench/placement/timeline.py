"""What a search did, moment by moment, as a watch of the API server shows it."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec

from edgewise.api.placement import LatencyPlacement, Phase
from edgewise.bench.placement.objects import NAMESPACE
from edgewise.kube.kinds.core import Pod
from edgewise.kube.kinds.endpoints import EndpointSlice
from edgewise.runtime.awaiting import Waiting

ENDED = (Phase.CONVERGED, Phase.SATISFIED, Phase.VIOLATED)


class PodSeen(msgspec.Struct, frozen=True):
    name: str
    node: str
    # Whether the placement owns it rather than a ReplicaSet.
    sentinel: bool
    ending: bool


class Moment(msgspec.Struct, frozen=True):
    """How things stand from `at` on, until the next one."""

    at: float
    pods: tuple[PodSeen, ...]
    # The pods that the Service sends new connections to.
    ready: frozenset[str]
    phase: str = ""
    search: int = 0
    moves: int = 0
    visited: int = 0
    # T_S and T_COM as the operator measured them, the mean of the rounds so far.
    schedule_seconds: float = 0.0
    com_seconds: float = 0.0

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    def on(self, node: str) -> bool:
        """Whether a replica that stays serves there."""
        return any(
            pod.node == node and pod.name in self.ready and not pod.sentinel and not pod.ending
            for pod in self.pods
        )


class Timeline:
    """Records while it is subscribed to three caches; whatever changes is a new moment."""

    def __init__(
        self,
        pods: Waiting[Pod],
        slices: Waiting[EndpointSlice],
        placements: Waiting[LatencyPlacement],
    ) -> None:
        self._pods = pods.cache
        self._slices = slices.cache
        self._placements = placements.cache
        self.moments: list[Moment] = []
        for cache in (pods.cache, slices.cache, placements.cache):
            cache.subscribe(self._changed)

    def begin(self) -> None:
        self.moments = [self._now()]

    def _changed(self, _old: object, _new: object, _bulk: bool) -> None:
        moment = self._now()
        if not self.moments or _differs(self.moments[-1], moment):
            self.moments.append(moment)

    def _now(self) -> Moment:
        placement = next(iter(self._placements.all(NAMESPACE)), None)
        status = placement.status if placement is not None else None
        return Moment(
            at=time.time(),
            pods=tuple(sorted(map(seen, self._pods.all(NAMESPACE)), key=lambda pod: pod.name)),
            ready=ready_endpoints(self._slices.all(NAMESPACE)),
            phase=status.phase if status else "",
            search=status.search.number if status else 0,
            moves=status.moves if status else 0,
            visited=len(status.visited) if status else 0,
            schedule_seconds=status.schedule_seconds if status else 0.0,
            com_seconds=status.com_seconds if status else 0.0,
        )


def _differs(one: Moment, other: Moment) -> bool:
    return msgspec.structs.replace(one, at=0.0) != msgspec.structs.replace(other, at=0.0)


def seen(pod: Pod) -> PodSeen:
    owners = {owner.kind for owner in pod.metadata.owner_references if owner.controller}
    return PodSeen(
        name=pod.metadata.name,
        node=pod.node_name,
        sentinel=LatencyPlacement.KIND.kind in owners,
        ending=pod.metadata.deletion_timestamp is not None,
    )


def ready_endpoints(slices: Iterable[EndpointSlice]) -> frozenset[str]:
    """A condition that is left out counts as ready, as kube-proxy has it."""
    return frozenset(
        endpoint.target_ref.name
        for each in slices
        for endpoint in each.endpoints or ()
        if endpoint.target_ref is not None and endpoint.conditions.ready is not False
    )
