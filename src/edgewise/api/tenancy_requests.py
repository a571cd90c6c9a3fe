"""Requests: people ask for a tenant, or for a role, and somebody who may decides.

A request is decided once, by somebody else than its maker, and then frozen. Deleting a request for
a role withdraws what it gave.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from edgewise.api.crd import Column, CrdSpec
from edgewise.api.schema import Rule, as_one, rules
from edgewise.api.tenancy import (
    ADMIN_ROLE,
    COLLABORATOR_ROLE,
    GROUP,
    OWNER_ROLE,
    RESERVED,
    VERSION,
    VIEWER_ROLE,
    Amounts,
    Label,
    Moment,
    TenantProfile,
    reserved,
)
from edgewise.kube.objects import Kind, Object, Record

# Which request gave it: the label of a binding, and an annotation of a Tenant.
REQUEST = f"{GROUP}/request"
# Decides who gets a tenant: a ClusterRole of the chart.
APPROVER_ROLE = "edgewise:tenant-approver"
# What can be asked for in a tenant's namespace besides its own Roles, and in the whole cluster.
OFFERED = (OWNER_ROLE, ADMIN_ROLE, COLLABORATOR_ROLE, VIEWER_ROLE)
OFFERED_EVERYWHERE = (APPROVER_ROLE, VIEWER_ROLE)
UNDECIDED_HOURS = 72
NAME_LENGTH = 26
NAME_PATTERN = f"^[a-z2-7]{{{NAME_LENGTH}}}$"


class RequestState(StrEnum):
    """How a request stands. A failure is `Failed/` and its reason."""

    PENDING = "Pending"
    GRANTED = "Granted"
    DENIED = "Denied"
    WITHDRAWN = "Withdrawn"  # what it gave was taken away by hand
    ENDED = "Ended"  # grantExpiresAt is past
    FAILED = "Failed"


def _immutable(field: str) -> Rule:
    return Rule(
        f"has(self.{field}) == has(oldSelf.{field}) && "
        f"(!has(self.{field}) || self.{field} == oldSelf.{field})",
        f"{field} is immutable: make a new request",
        field_path=f".{field}",
    )


_DECIDED_ONCE = Rule(
    "!has(oldSelf.decision) || (has(self.decision) && self.decision == oldSelf.decision)",
    "the decision is made, and frozen: make a new request",
    field_path=".decision",
)
_RANDOM_NAME = Rule(
    f"!has(self.metadata) || self.metadata.name.matches('{NAME_PATTERN}')",
    f"metadata.name is {NAME_LENGTH} random characters of a-z and 2-7: who knows it may see the "
    "request (`edgewise tenant request` makes one)",
)


class Decision(Record):
    approved: bool
    reason: Annotated[str, Meta(max_length=1024)] = ""
    by: Annotated[str, Meta(max_length=512)] = ""
    """Who decided; stamped."""


class RequestSpec(Record):
    """What every request for a role has; one for a tenant has it too."""

    requester: Annotated[str, Meta(max_length=512)] = ""
    """Who asks; stamped."""
    decision: Decision | None = None


class RequestStatus(Record):
    observed_generation: int = 0
    state: str = ""
    """Pending, Granted, Denied, Withdrawn, Ended, or Failed/ and a reason."""
    message: str = ""
    expires_at: datetime | None = None
    """When it ends unless it is decided by then."""
    notified: bool = False
    """Whether an event has told of the state."""


_COLUMNS = (
    Column("Requester", ".spec.requester"),
    Column("State", ".status.state"),
    Column("Age", ".metadata.creationTimestamp", "date"),
)


class TenantRequestSpec(TenantProfile, kw_only=True):
    """A tenant that its requester would own."""

    RULES: ClassVar = (
        _DECIDED_ONCE,
        *(
            _immutable(field)
            for field in (
                "requester",
                "tenantName",
                "fullName",
                "shortName",
                "description",
                "url",
                "address",
                "contact",
                "resources",
            )
        ),
    )

    requester: Annotated[str, Meta(max_length=512)] = ""
    """Who asks; stamped."""
    decision: Decision | None = None
    # On the field alone: what is stored can be denied, whatever became reserved since.
    tenant_name: Annotated[
        Label, rules(Rule(f"!({reserved('self')})", f"this name is reserved: {RESERVED}"))
    ]
    resources: Annotated[Amounts, as_one()] = {}
    """The quota that is asked for; without any, there is none."""


class TenantRequest(Object, kw_only=True):
    """Asks for a tenant."""

    KIND: ClassVar = Kind(GROUP, VERSION, "TenantRequest", "tenantrequests", namespaced=False)
    CRD: ClassVar = CrdSpec(columns=(Column("Tenant", ".spec.tenantName"), *_COLUMNS))
    RULES: ClassVar = (_RANDOM_NAME,)

    spec: TenantRequestSpec
    status: RequestStatus = msgspec.field(default_factory=RequestStatus)


class RequestedRole(Record):
    kind: Literal["Role", "ClusterRole"]
    name: Annotated[str, Meta(min_length=1, max_length=253)]


_ROLE_RULES = (
    _DECIDED_ONCE,
    *(_immutable(field) for field in ("requester", "roleRef", "grantExpiresAt")),
)


class RoleRequestSpec(RequestSpec, kw_only=True):
    """A role in this namespace."""

    RULES: ClassVar = (
        *_ROLE_RULES,
        Rule(
            f"self.roleRef.kind == 'Role' || self.roleRef.name in {list(OFFERED)!r}",
            f"roleRef: the ClusterRoles to choose from are {', '.join(OFFERED)}",
            field_path=".roleRef",
        ),
    )

    role_ref: RequestedRole
    grant_expires_at: Moment | None = None
    """When the role is taken away again."""


class RoleRequest(Object, kw_only=True):
    """Asks for a role in the namespace that it is in."""

    KIND: ClassVar = Kind(GROUP, VERSION, "RoleRequest", "rolerequests")
    CRD: ClassVar = CrdSpec(columns=(Column("Role", ".spec.roleRef.name"), *_COLUMNS))
    RULES: ClassVar = (_RANDOM_NAME,)

    spec: RoleRequestSpec
    status: RequestStatus = msgspec.field(default_factory=RequestStatus)


class ClusterRoleRequestSpec(RequestSpec, kw_only=True):
    """A role in the whole cluster."""

    RULES: ClassVar = (
        *_ROLE_RULES,
        Rule(
            f"self.roleRef.kind == 'ClusterRole' && self.roleRef.name in "
            f"{list(OFFERED_EVERYWHERE)!r}",
            f"roleRef: the ClusterRoles to choose from are {', '.join(OFFERED_EVERYWHERE)}",
            field_path=".roleRef",
        ),
    )

    role_ref: RequestedRole
    grant_expires_at: Moment | None = None
    """When the role is taken away again."""


class ClusterRoleRequest(Object, kw_only=True):
    """Asks for a role in the whole cluster."""

    KIND: ClassVar = Kind(
        GROUP, VERSION, "ClusterRoleRequest", "clusterrolerequests", namespaced=False
    )
    CRD: ClassVar = CrdSpec(columns=(Column("Role", ".spec.roleRef.name"), *_COLUMNS))
    RULES: ClassVar = (_RANDOM_NAME,)

    spec: ClusterRoleRequestSpec
    status: RequestStatus = msgspec.field(default_factory=RequestStatus)


Request = TenantRequest | RoleRequest | ClusterRoleRequest
RoleAsked = RoleRequest | ClusterRoleRequest
REQUESTS: tuple[type[Any], ...] = (TenantRequest, RoleRequest, ClusterRoleRequest)
