"""The controllers of requests: three kinds, one course."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Generic, TypeVar

from edgewise.api.tenancy import Tenant, TenantResourceQuota
from edgewise.api.tenancy_requests import (
    REQUEST,
    ClusterRoleRequest,
    Request,
    RequestState,
    RoleRequest,
    TenantRequest,
)
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.rbac import ClusterRoleBinding, RoleBinding
from edgewise.kube.objects import Key, Object
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import CacheView, mapped, owned
from edgewise.tenancy.requests.apply import give, take_back
from edgewise.tenancy.requests.observe import observe
from edgewise.tenancy.requests.plan import Plan, plan

T = TypeVar("T", TenantRequest, RoleRequest, ClusterRoleRequest)
# What was refused may be allowed later: somebody mends a role, or a policy.
_ASK_AGAIN_SECONDS = 60.0


class RequestController(Controller[T], Generic[T]):
    wakes_on_status = False

    async def reconcile(self, request: T) -> Requeue | None:
        refused = ""
        decided = self._look(request)
        if decided.give:
            refused = await give(self.api, request)
            decided = self._look(request, refused)
        if decided.take_back:
            await take_back(self.api, request)
        if decided.tell is not None:
            self._tell(request, *decided.tell)
        if decided.end:
            await self.api.delete(request)
            return None
        try:
            await self.api.write_status(request, decided.status)
        except NotFound:
            return None  # its maker has deleted it meanwhile
        wake_at = decided.wake_at.timestamp() if decided.wake_at is not None else None
        return Requeue(delay=_ASK_AGAIN_SECONDS) if refused else Requeue.at(wake_at)

    def _look(self, request: Request, refused: str = "") -> Plan:
        now = datetime.fromtimestamp(self.clock(), UTC)
        return plan(observe(request, self.cache, refused), now)

    def _tell(self, request: Request, reason: str, sentence: str) -> None:
        bad = reason in (RequestState.FAILED, "Expired")
        (self.events.warning if bad else self.events.normal)(request, reason, sentence)


class RoleRequestController(RequestController[RoleRequest]):
    watches = (owned(RoleBinding, labels=REQUEST),)


class ClusterRoleRequestController(RequestController[ClusterRoleRequest]):
    watches = (owned(ClusterRoleBinding, labels=REQUEST),)


def by_tenant_name(request: TenantRequest) -> str:
    return request.spec.tenant_name


def requests_of(obj: Object, cache: CacheView) -> Iterable[Key]:
    """Those that asked for this tenant: one of them may have to say so now."""
    return [each.key for each in cache[TenantRequest].by(by_tenant_name, obj.metadata.name)]


class TenantRequestController(RequestController[TenantRequest]):
    watches = (mapped(Tenant, requests_of), mapped(TenantResourceQuota, requests_of))
