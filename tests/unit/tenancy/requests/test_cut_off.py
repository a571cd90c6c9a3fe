"""An operator that is killed before or after any of its writes: the next one finishes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from edgewise.api.tenancy import Tenant, TenantResourceQuota
from edgewise.api.tenancy_requests import (
    Decision,
    RequestedRole,
    RoleRequest,
    RoleRequestSpec,
    TenantRequest,
    TenantRequestSpec,
)
from edgewise.kube.errors import AlreadyExists, NotFound, Unreachable
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.kinds.rbac import RoleBinding
from edgewise.kube.objects import Key, Object
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.retry import TryAgainNow
from edgewise.runtime.watches import CacheView
from edgewise.tenancy.requests.controller import (
    RequestController,
    RoleRequestController,
    TenantRequestController,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS: tuple[type[Any], ...] = (
    Tenant,
    TenantResourceQuota,
    RoleBinding,
    TenantRequest,
    RoleRequest,
)
YES = Decision(approved=True, by="olga")


class Server:
    """Keeps objects, and what of them the caches of an operator show."""

    def __init__(self, *there: Any) -> None:
        self.caches: dict[type[Object], Cache[Any]] = {kind: Cache(kind) for kind in KINDS}
        for cache in self.caches.values():
            cache.replace([], "0")
        self.writes = 0
        self.cut: tuple[int, bool] | None = None  # at which write, and whether it was carried out
        self._revision = 0
        for each in there:
            self._put(each)

    def found(self, kind: type[Object]) -> list[Any]:
        return list(self.caches[kind])

    def _put(self, obj: Any, *, deleted: bool = False) -> None:
        self._revision += 1
        meta = msgspec.structs.replace(obj.metadata, resource_version=str(self._revision))
        changed = msgspec.structs.replace(obj, metadata=meta)
        self.caches[type(obj)].apply(changed, deleted=deleted)

    def _write(self, do: Any) -> None:
        self.writes += 1
        if self.cut == (self.writes, False):
            raise Unreachable("this operator was killed")
        do()
        if self.cut == (self.writes, True):
            raise Unreachable("this operator was killed")

    # As an operator calls it ------------------------------------------------------------

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        if kind is Namespace:
            return Namespace.named(name)
        found = self.caches[kind].get(Key(namespace, name))
        if found is None:
            raise NotFound(404, "NotFound", name)
        return found

    async def create(self, obj: Any) -> None:
        if self.caches[type(obj)].get(obj.key) is not None:
            raise AlreadyExists(409, "AlreadyExists", str(obj.key))
        self._write(lambda: self._put(obj))

    async def delete(self, obj: Any, **_: Any) -> None:
        self._write(lambda: self._put(obj, deleted=True))

    async def write_status(self, obj: Any, status: Any) -> None:
        if obj.status != status:
            self._write(lambda: self._put(msgspec.structs.replace(obj, status=status)))


async def run(server: Server, controller: RequestController[Any], now: datetime) -> None:
    """One operator, until it writes nothing more or is killed."""
    quiet: Any = SimpleNamespace(normal=lambda *_: None, warning=lambda *_: None)
    api: Any = server
    controller.cache = CacheView("test", server.caches)
    controller.api, controller.events, controller.clock = api, quiet, now.timestamp
    for _ in range(8):
        before = [*server.found(TenantRequest), *server.found(RoleRequest)]
        for each in before:
            try:
                await controller.reconcile(each)
            except TryAgainNow:
                continue
        if before == [*server.found(TenantRequest), *server.found(RoleRequest)]:
            return
    raise AssertionError("it never comes to rest")


async def every_cut(make: Any, controller: Any, now: datetime, check: Any) -> int:
    whole = Server(make())
    await run(whole, controller(), now)
    check(whole)
    for number in range(1, whole.writes + 1):
        for after in (False, True):
            server = Server(make())
            server.cut = (number, after)
            with pytest.raises(Unreachable):
                await run(server, controller(), now)
            server.cut = None
            await run(server, controller(), now)
            check(server)
    return whole.writes


def born(made: Any) -> Any:
    made.metadata.uid, made.metadata.generation = f"uid-{made.metadata.name}", 1
    made.metadata.creation_timestamp = NOW.isoformat()
    return made


async def test_a_tenant_comes_with_its_quota_and_both_are_of_the_request() -> None:
    def make() -> TenantRequest:
        spec = TenantRequestSpec(
            tenant_name="newco", requester="nina", resources={"pods": 3}, decision=YES
        )
        return born(TenantRequest.named("r", spec=spec))

    def check(server: Server) -> None:
        (tenant,), (quota,) = server.found(Tenant), server.found(TenantResourceQuota)
        assert [each.name for each in tenant.spec.owners] == ["nina"]
        assert quota.spec.claims["request"].resources == {"pods": 3}
        (request,) = server.found(TenantRequest)
        assert request.status.state == "Granted"

    assert await every_cut(make, TenantRequestController, NOW, check) == 3


def role(**spec: Any) -> RoleRequest:
    ref = RequestedRole(kind="ClusterRole", name="edgewise:tenant-viewer")
    made = RoleRequest.named(
        "r", "acme", spec=RoleRequestSpec(requester="eve", role_ref=ref, **spec)
    )
    return born(made)


async def test_a_role_is_bound_once() -> None:
    def check(server: Server) -> None:
        (binding,) = server.found(RoleBinding)
        assert [each.name for each in binding.subjects] == ["eve"]
        assert server.found(RoleRequest)[0].status.state == "Granted"

    assert await every_cut(lambda: role(decision=YES), RoleRequestController, NOW, check) == 2


async def test_a_role_whose_time_is_over_is_taken_back() -> None:
    soon = NOW + timedelta(hours=1)

    async def given() -> Server:
        server = Server(role(decision=YES, grant_expires_at=soon))
        await run(server, RoleRequestController(), NOW)
        assert server.found(RoleBinding)
        server.writes = 0
        return server

    for cut in (None, (1, False), (1, True), (2, False), (2, True)):
        server = await given()
        server.cut = cut
        later = soon + timedelta(seconds=1)
        if cut is not None:
            with pytest.raises(Unreachable):
                await run(server, RoleRequestController(), later)
            server.cut = None
        await run(server, RoleRequestController(), later)
        assert not server.found(RoleBinding)
        assert server.found(RoleRequest)[0].status.state == "Ended"


async def test_what_nobody_decided_is_gone() -> None:
    later = NOW + timedelta(hours=73)

    def check(server: Server) -> None:
        assert not server.found(RoleRequest)
        assert not server.found(RoleBinding)

    assert await every_cut(role, RoleRequestController, later, check) == 1
