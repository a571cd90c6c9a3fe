"""What the plan sees: values only, gathered by `observe`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from edgewise.api.placement import LatencyPlacement, LatencyPlacementSpec, seconds
from edgewise.placement.ranking import Value


class Role(StrEnum):
    """What a pod of the target is, by who controls it."""

    REPLICA = "replica"  # of the newest ReplicaSet
    OLD = "old"  # of an earlier one
    SENTINEL = "sentinel"  # ours
    PROMOTED = "promoted"  # was ours, and no ReplicaSet has it yet
    STRAY = "stray"  # was ours, and no ReplicaSet is there that would have it


class PodHere(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str
    role: Role
    node: str = ""
    ready: bool = False
    ready_since: float = 0.0  # the earliest that can be: conditions have whole seconds
    ready_seen: float = 0.0  # when this operator saw it, if that was within that second
    deleting: bool = False
    ended: bool = False
    cost: bool = False  # it has a deletion cost of ours
    drains: bool = True  # it has a preStop, ours or its own
    unschedulable_since: float | None = None
    trouble: str = ""

    @property
    def live(self) -> bool:
        return not self.deleting and not self.ended


class NodeHere(msgspec.Struct, frozen=True, kw_only=True):
    """A node that the target's pods may be on, as far as its labels and taints say."""

    name: str
    hostname: str
    ready: bool = True
    cordoned: bool = False

    @property
    def usable(self) -> bool:
        return self.ready and not self.cordoned


class TargetHere(msgspec.Struct, frozen=True, kw_only=True):
    replicas: int
    revision: str  # the pod-template-hash of the newest ReplicaSet
    rolling: bool = False
    deleting: bool = False
    paused_because: str = ""  # what of it cannot be placed


class Refusal(msgspec.Struct, frozen=True):
    """Why the API server would not have a sentinel."""

    quota: bool
    words: str
    taken: bool = False  # another pod has its name: the next one gets another


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    placement: LatencyPlacement
    target: TargetHere | None
    pods: tuple[PodHere, ...] = ()
    nodes: tuple[NodeHere, ...] = ()
    heard: Mapping[str, Value] = {}  # by uid of the pod
    probed: Mapping[str, Value] = {}  # by node
    refused: Mapping[str, Refusal] = {}  # by name of the sentinel
    over_since: float | None = None  # since when the threshold is exceeded
    problem: str = ""  # why nothing can be done: a sentence
    reporting: str = ""  # what is wrong with the program that counts reports

    @property
    def spec(self) -> LatencyPlacementSpec:
        return self.placement.spec

    @property
    def observation(self) -> float:
        return max(0.01, seconds(self.spec.observation))

    @property
    def trigger(self) -> float:
        return seconds(self.spec.trigger) or 300.0
