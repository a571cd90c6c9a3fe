"""Slices: whole nodes for one tenant, for a time.

A Slice takes nodes out of the shared ones. A SliceClaim asks for one from within a tenant's
namespace, and a SubNamespace that names the claim uses it: then pods of other tenants leave the
nodes, and those of the SubNamespace run there and nowhere else.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from edgewise.api.crd import Column, CrdSpec
from edgewise.api.schema import Rule, as_one, keyed_by
from edgewise.api.tenancy import GROUP, VERSION, Amounts, Label, Moment
from edgewise.kube.conditions import Condition
from edgewise.kube.objects import Kind, Object, Record

# A second taint of a node that leaves its slice: nothing more comes in.
SLICE_ENDS = f"{GROUP}/slice-ends"
# Annotations of a node in a slice: when what has to go is deleted rather than evicted, and how
# many seconds it gets, for when the Slice itself is gone.
EMPTY_BY = f"{GROUP}/slice-empty-by"
GRACE = f"{GROUP}/slice-grace"

DEFAULT_GRACE_SECONDS = 60
LONGEST_GRACE = 86_400


class SliceState(StrEnum):
    """How a Slice stands. A failure is `Failed/` and its reason."""

    RESERVED = "Reserved"  # it has its nodes
    BOUND = "Bound"  # and belongs to a claim
    PROVISIONED = "Provisioned"  # and nobody else's pods are on its nodes
    FAILED = "Failed"


class ClaimState(StrEnum):
    PENDING = "Pending"  # there is no slice for it
    REQUESTED = "Requested"  # there is one, without its nodes
    BOUND = "Bound"  # the slice has its nodes
    EMPLOYED = "Employed"  # a subnamespace has them for itself


class NodeRequirement(Record):
    key: Annotated[str, Meta(min_length=1, max_length=317)]
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: Annotated[list[Annotated[str, Meta(max_length=63)]], as_one(), Meta(max_length=32)] = []


class NodeTerm(Record):
    """Nodes with all of these labels."""

    match_labels: Annotated[
        dict[str, Annotated[str, Meta(max_length=63)]], as_one(), Meta(max_length=16)
    ] = {}
    match_expressions: Annotated[list[NodeRequirement], as_one(), Meta(max_length=16)] = []


def _immutable(field: str) -> Rule:
    return Rule(
        f"has(self.{field}) == has(oldSelf.{field}) && "
        f"(!has(self.{field}) || self.{field} == oldSelf.{field})",
        f"{field} is immutable: delete this one and make a new one",
        field_path=f".{field}",
    )


_NODES = tuple(_immutable(field) for field in ("selector", "nodeCount", "resources"))


class NodesWanted(Record, kw_only=True):
    """Which nodes, and how many."""

    selector: Annotated[list[NodeTerm], as_one(), Meta(max_length=8)] = []
    """Nodes that one of these terms describes; without any, all nodes."""
    node_count: Annotated[int, Meta(ge=1, le=1000)]
    """So many nodes, whole ones."""
    resources: Annotated[Amounts, as_one()] = {}
    """What each of them has at least, such as cpu: 4."""
    expires_at: Moment | None = None
    """When it is deleted, and the nodes are everybody's again."""


class ClaimRef(Record):
    namespace: Label
    name: Label
    uid: Annotated[str, Meta(max_length=64)] = ""
    """Without it, any claim of that name."""


class SliceSpec(NodesWanted, kw_only=True):
    """Nodes that are set apart."""

    RULES: ClassVar = _NODES

    claim_ref: ClaimRef | None = None
    """The claim that it is for."""
    grace_seconds: Annotated[int, Meta(ge=0, le=LONGEST_GRACE)] = DEFAULT_GRACE_SECONDS
    """How long pods that have to leave may take; budgets hold so long."""


class SliceStatus(Record):
    observed_generation: int = 0
    state: str = ""
    """Reserved, Bound, Provisioned, or Failed/ and a reason."""
    nodes: list[str] = []
    resources: dict[str, str] = {}
    """What its nodes have together."""
    conditions: Annotated[list[Condition], keyed_by("type")] = []


class Slice(Object, kw_only=True):
    """Nodes for one tenant."""

    KIND: ClassVar = Kind(GROUP, VERSION, "Slice", "slices", namespaced=False)
    CRD: ClassVar = CrdSpec(
        columns=(
            Column("State", ".status.state"),
            Column("Nodes", ".status.nodes"),
            Column("Claim", ".spec.claimRef.name"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
    RULES: ClassVar = (
        Rule(
            "!has(self.metadata) || size(self.metadata.name) <= 63 && "
            "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name becomes a label of nodes: at most 63 small letters, digits and dashes",
        ),
    )

    spec: SliceSpec
    status: SliceStatus = msgspec.field(default_factory=SliceStatus)


class SliceClaimSpec(NodesWanted, kw_only=True):
    """Nodes that a tenant wants for a subnamespace of its own."""

    RULES: ClassVar = (
        *_NODES,
        _immutable("mode"),
        _immutable("sliceName"),
        Rule(
            "!has(self.sliceName) || self.mode == 'Manual'",
            "sliceName goes with mode Manual: a Dynamic claim gets a slice of its own",
            field_path=".sliceName",
        ),
    )

    mode: Literal["Dynamic", "Manual"] = "Dynamic"
    """Dynamic: the operator makes the slice if the quota here covers the nodes. Manual: an
    administrator makes one."""
    slice_name: Label | None = None
    """With Manual: the Slice to wait for, whose claimRef has to name this claim."""


class SliceClaimStatus(Record):
    observed_generation: int = 0
    state: str = ""
    """Pending, Requested, Bound or Employed."""
    slice: str = ""
    nodes: int | None = None
    resources: dict[str, str] = {}
    """What the nodes have together."""
    conditions: Annotated[list[Condition], keyed_by("type")] = []


class SliceClaim(Object, kw_only=True):
    """Asks for a slice."""

    KIND: ClassVar = Kind(GROUP, VERSION, "SliceClaim", "sliceclaims")
    CRD: ClassVar = CrdSpec(
        columns=(
            Column("Mode", ".spec.mode"),
            Column("State", ".status.state"),
            Column("Nodes", ".status.nodes", "integer"),
            Column("Slice", ".status.slice"),
            Column("Expires", ".spec.expiresAt", "date"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
    RULES: ClassVar = (
        Rule(
            "!has(self.metadata) || size(self.metadata.name) <= 52 && "
            "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name becomes a part of the slice's name: at most 52 small letters, digits "
            "and dashes",
        ),
    )

    spec: SliceClaimSpec
    status: SliceClaimStatus = msgspec.field(default_factory=SliceClaimStatus)
