"""What a plan may ask for, each as a value."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewise.api.tenancy import SubNamespace, Tenant, TenantResourceQuota
from edgewise.kube.kinds.core import Namespace, ResourceQuota
from edgewise.kube.objects import Object
from edgewise.tenancy.quota.tree_quota import QuotaWrite


class Create(msgspec.Struct, frozen=True):
    made: Object


class Correct(msgspec.Struct, frozen=True):
    """A merge patch of an object that is not as it should be."""

    found: Object
    patch: dict[str, Any]


class Delete(msgspec.Struct, frozen=True):
    """In the background: else an ownerReference of a tenant's could hold what it names."""

    found: Object


class Sweep(msgspec.Struct, frozen=True):
    """Delete what nothing asks for any more, after a live read: caches may be behind."""

    found: Namespace | Tenant


class MoveAmounts(msgspec.Struct, frozen=True):
    write: QuotaWrite
    found: ResourceQuota | None


class Suspend(msgspec.Struct, frozen=True):
    """Empty all RoleBindings of a namespace, or fill them again."""

    namespace: Namespace
    suspended: bool


class Inherit(msgspec.Struct, frozen=True):
    """Copy kinds of objects from the parent."""

    namespace: Namespace
    parent: str
    kinds: tuple[str, ...]
    mark: str


class Say(msgspec.Struct, frozen=True):
    """A status; written when nothing else is left to do in this pass."""

    about: Tenant | SubNamespace | TenantResourceQuota
    status: msgspec.Struct


class Tell(msgspec.Struct, frozen=True):
    """An event."""

    about: Object
    reason: str
    message: str
    warning: bool = False


Order = Create | Correct | Delete | Sweep | MoveAmounts | Suspend | Inherit
