"""What an uninstallation says before it takes anything away."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.api.tenancy import ParentRef, Subject, Tenant, TenantSpec
from edgewise.kube.errors import Forbidden
from edgewise.kube.kinds.core import Pod
from edgewise.uninstall import Uninstaller, UninstallError

ALICE = Subject(kind="User", name="alice")


class ApiServer:
    """Knows tenants, and refuses every deletion."""

    def __init__(self, *tenants: Tenant) -> None:
        self.items = list(tenants)
        self.asked: list[str] = []

    async def list(self, kind: type[Any]) -> ApiServer:
        self.asked.append(f"list {kind.KIND.plural}")
        return self

    async def delete(self, *_: Any, **__: Any) -> None:
        raise Forbidden(403, "Forbidden", "disable a tenant before you delete it")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was called, though a tenant is at work")


async def test_a_tenant_at_work_is_named_before_anything_stops() -> None:
    parent = ParentRef(namespace="acme", name="shop", uid="x")
    server = ApiServer(
        Tenant.named("acme", spec=TenantSpec(owners=[ALICE])),
        Tenant.named("idle", spec=TenantSpec(owners=[ALICE], enabled=False)),
        Tenant.named("shop-x", spec=TenantSpec(owners=[ALICE], parent=parent)),
    )
    with pytest.raises(UninstallError, match=r"^at work: Tenant acme; nothing was taken away"):
        await Uninstaller(server, "system", print).run(delete_sessions=True)  # type: ignore[arg-type]
    assert server.asked == ["list tenants"]


async def test_what_may_not_be_deleted_ends_it_with_the_sentence_of_the_api_server() -> None:
    work = Uninstaller(ApiServer(), "system", print)  # type: ignore[arg-type]
    await work._delete(Pod.named("a", "b"))
    with pytest.raises(UninstallError, match=r"refuses to delete Pod b/a: .*disable a tenant"):
        work._stop_if_refused()
