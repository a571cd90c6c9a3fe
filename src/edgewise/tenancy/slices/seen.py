"""What the rules of a slice see."""

from __future__ import annotations

import msgspec

from edgewise.api.tenancy_slices import Slice
from edgewise.kube.kinds.core import Node, Pod


class PodSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on a node of a slice that still runs, or may."""

    pod: Pod
    foreign: bool = False  # of another tenant than the one that the slice is for
    inside: bool = False  # made for this slice: its tenant may run it nowhere else


class NodeSeen(msgspec.Struct, frozen=True, kw_only=True):
    node: Node
    pods: tuple[PodSeen, ...] = ()
    # The pods were read after the last write to the node: who is not among them is not there.
    proven: bool = False

    @property
    def name(self) -> str:
        return self.node.metadata.name


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A slice and its nodes."""

    name: str
    slice: Slice | None  # None: it was deleted, and nodes of it are left
    claimed: bool = False  # the claim that it names is there
    lost_claim: bool = False  # it was made for a claim that is there no more
    employed: bool = False  # a namespace uses it
    held: tuple[NodeSeen, ...] = ()  # in the order of their names
    free: tuple[Node, ...] = ()  # that it could take, in the order of their names
    matching: int = 0  # nodes that are as it wants them, in a slice or not
