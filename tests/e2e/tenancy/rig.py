"""One tenant for each test, with its owner and the administrator."""

from __future__ import annotations

import contextlib
import datetime
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from edgewise.api.tenancy import (
    Share,
    SubNamespace,
    SubNamespaceSpec,
    Tenant,
    TenantResourceQuota,
    TenantResourceQuotaSpec,
    TenantSpec,
    Workspace,
)
from edgewise.kube.client import Client
from edgewise.kube.errors import Forbidden, NotFound
from edgewise.kube.kinds.core import (
    Namespace,
    Pod,
    ResourceQuota,
)
from edgewise.local.clusters import LocalCluster
from edgewise.tenancy.names import KEPT, child_name
from edgewise.tenancy.quota.quantities import parse
from edgewise.testing.eventually import eventually
from tests.e2e.tenancy.escape.workloads import pod
from tests.e2e.tenancy.scene import as_user, established, user

RBAC_WORKSPACE = Workspace(inherit=["RBAC"])


class Rig:
    """One tenant, its owner and the administrator."""

    def __init__(self, cluster: LocalCluster, admin: Client, owner: Client, name: str) -> None:
        self.cluster, self.admin, self.owner, self.name = cluster, admin, owner, name

    async def tenant(self, **spec: Any) -> Tenant:
        owners = spec.pop("owners", [user(self.name)])
        await self.admin.create(Tenant.named(self.name, spec=TenantSpec(owners=owners, **spec)))
        await established(self.admin, Tenant, self.name)
        return await self.admin.get(Tenant, self.name)

    async def quota(self, **resources: Any) -> None:
        spec = TenantResourceQuotaSpec(claims={"all": Share(resources=resources)})
        await self.admin.create(TenantResourceQuota.named(self.name, spec=spec))

    async def total(self, **resources: Any) -> None:
        body = {"spec": {"claims": {"all": {"resources": resources}}}}
        await self.admin.patch(TenantResourceQuota, self.name, body=body)

    async def child(self, name: str, namespace: str = "", **spec: Any) -> str:
        above = namespace or self.name
        made = SubNamespaceSpec(**spec)
        await self.owner.create(SubNamespace.named(name, above, spec=made))
        await established(self.owner, SubNamespace, name, above)
        return child_name(above, name)

    async def expire(self, name: str) -> None:
        """Soon: what is past already is refused, by the API server's own clock."""
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
        body = {"spec": {"expiresAt": soon.isoformat()}}
        await self.owner.patch(SubNamespace, name, self.name, body=body)

    async def pod(self, namespace: str, name: str = "", **spec: Any) -> None:
        document = pod(**spec)
        document["metadata"]["name"] = name or f"p-{secrets.token_hex(3)}"
        path, body = Pod.KIND.path(namespace), msgspec.json.encode(document)

        async def judged() -> bool:
            try:
                await self.owner.request("POST", path, body=body)
            except Forbidden as error:
                # Kubernetes lets nothing in until its quota controller has counted once.
                if "status unknown for quota" in str(error):
                    return False
                raise
            return True

        await eventually(judged, within=60)

    async def hard(self, namespace: str, name: str = "pods") -> int:
        found = await self.admin.get(ResourceQuota, KEPT, namespace)
        return parse(found.status.hard[name]) // 10**9

    async def state(self, name: str, namespace: str = "") -> Any:
        return (await self.admin.get(SubNamespace, name, namespace or self.name)).status

    async def ends(self, namespace: str) -> None:
        """The operator has deleted it; Kubernetes takes some seconds more until it is gone."""

        async def is_so() -> bool:
            try:
                return (await self.admin.get(Namespace, namespace)).metadata.deleting
            except NotFound:
                return True

        await eventually(is_so, within=60)

    async def gone(self, namespace: str) -> None:
        async def is_so() -> bool:
            try:
                await self.admin.get(Namespace, namespace)
            except NotFound:
                return True
            return False

        await eventually(is_so, within=60)


@pytest.fixture
async def rig(tenants: LocalCluster) -> AsyncIterator[Rig]:
    name = f"t-{secrets.token_hex(4)}"
    async with as_user(tenants.kubeconfig) as admin, as_user(tenants.kubeconfig, name) as owner:
        yield Rig(tenants, admin, owner, name)
        for kind in (TenantResourceQuota, Tenant):
            with contextlib.suppress(NotFound):
                if kind is Tenant:
                    await admin.patch(Tenant, name, body={"spec": {"enabled": False}})
                await admin.delete(kind, name)
