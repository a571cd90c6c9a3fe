"""What the rules of the tree see: one branch for each namespace, from the core one down."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from edgewise.api.tenancy import (
    OWNER_UID,
    TENANT_UID,
    Subject,
    SubNamespace,
    Tenant,
    TenantResourceQuota,
)
from edgewise.api.tenancy_slices import ClaimState, SliceClaim
from edgewise.kube.kinds.core import LimitRange, Namespace, ResourceQuota
from edgewise.kube.kinds.networking import NetworkPolicy
from edgewise.kube.kinds.rbac import RoleBinding
from edgewise.tenancy.surroundings import Surroundings


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace that is wanted, and what of it is there."""

    name: str
    path: tuple[str, ...]  # the namespaces above, the core one of the tree first
    tenant: Tenant | None  # whose namespace it is; None: the subtenant is not made yet
    source: SubNamespace | None = None  # who asked for it; None: it is the core of the tree
    namespace: Namespace | None = None
    binding: RoleBinding | None = None
    policy: NetworkPolicy | None = None
    limits: LimitRange | None = None
    quota: ResourceQuota | None = None
    enabled: bool = True
    people: tuple[Subject, ...] = ()  # who gets in as an owner
    # The claim that its SubNamespace names; and the slice that it is in, by that or by a parent's.
    claim: SliceClaim | None = None
    slice: str = ""
    asks: int = 0  # how many SubNamespaces are in it
    # A namespace of this name was found that is not ours.
    foreign: bool = False
    # It will never be made as it is asked for: too deep, or over before it began.
    barred: bool = False

    @property
    def parent(self) -> str:
        return self.path[-1] if self.path else ""

    @property
    def is_core(self) -> bool:
        """Whether a Tenant, and not its parent's, is what it belongs to."""
        return self.source is None or self.source.spec.subtenant is not None

    @property
    def mine(self) -> bool:
        """Whether the namespace that is there is the one that was asked for."""
        return self.namespace is not None and self.tenant is not None and not self.strange

    @property
    def strange(self) -> bool:
        """Whether what is there belongs to another Tenant or SubNamespace, perhaps a former one."""
        if self.namespace is None or self.tenant is None:
            return self.foreign
        labels = self.namespace.metadata.labels
        asked = self.source.metadata.uid if self.source is not None else ""
        return (
            labels.get(TENANT_UID) != self.tenant.metadata.uid or labels.get(OWNER_UID, "") != asked
        )

    @property
    def sliced(self) -> bool:
        """Whether it is to have nodes of its own."""
        return self.source is not None and self.source.spec.slice_claim is not None

    @property
    def has_slice(self) -> bool:
        """Whether the nodes are set apart for it."""
        return self.claim is not None and self.claim.status.state in (
            ClaimState.BOUND,
            ClaimState.EMPLOYED,
        )

    @property
    def follows(self) -> bool:
        """Whether copies in it follow their originals. Those of a disabled tenant stay as they
        are."""
        space = self.source.spec.workspace if self.source is not None else None
        return (
            space is not None
            and space.sync == "Continuous"
            and bool(space.inherit)
            and self.ready
            and self.enabled
            and self.binding is not None
        )

    @property
    def ready(self) -> bool:
        """Whether something can be made in it."""
        return self.mine and self.namespace is not None and not self.namespace.metadata.deleting


class Uncopied(msgspec.Struct, frozen=True):
    """Why something that a namespace inherits is not in it."""

    why: str
    on_purpose: bool = False  # people of the namespace have something of their own there


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """All that hangs below one Tenant without a parent."""

    tenant: Tenant
    branches: Mapping[str, Branch]  # parents before their children
    around: Surroundings
    quota: TenantResourceQuota | None = None
    # Quotas with the name of a subtenant of the tree, whose parents give it what it has.
    unheeded: tuple[TenantResourceQuota, ...] = ()
    # Namespaces of the tree that nothing asks for any more.
    orphans: tuple[Namespace, ...] = ()
    # Subtenants whose SubNamespace is gone.
    lost_tenants: tuple[Tenant, ...] = ()
    # Children named by a ledger of which nothing is left that could use their amounts.
    gone: frozenset[str] = frozenset()
    # What the API server had against the quota as it is now.
    refused: str = ""
    # Namespaces of which the API server has refused something just now, and why.
    stuck: Mapping[str, str] = {}
    # What it was, as the namespace and the kind of step: it is not tried again in this pass.
    undone: frozenset[tuple[str, str]] = frozenset()
    # Branches that are as they were when a plan wanted nothing of them: without quota, it need not
    # look at them again.
    rested: frozenset[str] = frozenset()
    # Namespaces that lack something of what they inherit continuously, and why.
    uncopied: Mapping[str, Uncopied] = {}
