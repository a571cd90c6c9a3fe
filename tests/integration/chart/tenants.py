"""What an operator with the chart's rights does for tenants. Here is no controller manager: quotas
are counted by these lines, and no namespace ever goes."""

from __future__ import annotations

from edgewise.api.tenancy import (
    Share,
    Subject,
    SubNamespace,
    SubNamespaceSpec,
    Subtenant,
    Tenant,
    TenantResourceQuota,
    TenantResourceQuotaSpec,
    TenantSpec,
    Workspace,
)
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace, ResourceQuota, Secret
from edgewise.kube.kinds.networking import NetworkPolicy
from edgewise.kube.kinds.rbac import RoleBinding
from edgewise.tenancy.names import KEPT, child_name
from edgewise.testing.eventually import eventually

ALICE = Subject(kind="User", name="alice")
NAME = "rights-acme"


async def tenants_live(client: Client) -> None:
    spec = TenantResourceQuotaSpec(claims={"all": Share(resources={"pods": 5})})
    await client.create(TenantResourceQuota.named(NAME, spec=spec))
    await client.create(Tenant.named(NAME, spec=TenantSpec(owners=[ALICE])))
    await _state(client, "Established")
    await client.create(Secret.named("login", NAME, data={"a": b"b"}))
    await _count(client, NAME)
    team = Workspace(inherit=["RBAC", "Secret"], sync="Continuous")
    for name, made in (
        ("team", SubNamespaceSpec(workspace=team, resources={"pods": 2})),
        ("shop", SubNamespaceSpec(subtenant=Subtenant(owner=ALICE), resources={"pods": 1})),
    ):
        await client.create(SubNamespace.named(name, NAME, spec=made))
    child = child_name(NAME, "team")

    async def copied() -> None:
        assert (await client.get(Secret, "login", child)).data == {"a": b"b"}
        assert (await client.get(SubNamespace, "shop", NAME)).status.state == "Established"

    await eventually(copied, within=60, not_yet=(Exception,))
    # What somebody takes away or changes is put back.
    await client.delete(NetworkPolicy, KEPT, NAME)
    await client.patch(RoleBinding, KEPT, NAME, body={"subjects": []})

    async def mended() -> None:
        await client.get(NetworkPolicy, KEPT, NAME)
        assert (await client.get(RoleBinding, KEPT, NAME)).subjects

    await eventually(mended, within=30, not_yet=(Exception,))
    await client.delete(SubNamespace, "shop", NAME)

    async def ends() -> None:
        assert (await client.get(Namespace, child_name(NAME, "shop"))).metadata.deleting

    await eventually(ends, within=30)
    await client.patch(Tenant, NAME, body={"spec": {"enabled": False}})
    await _state(client, "Disabled")
    await client.delete(Tenant, NAME)

    async def gone() -> None:
        assert (await client.get(Namespace, NAME)).metadata.deleting

    await eventually(gone, within=30)
    await client.delete(TenantResourceQuota, NAME)


async def _state(client: Client, wanted: str) -> None:
    async def is_so() -> None:
        status = (await client.get(Tenant, NAME)).status
        assert status.state == wanted, status

    await eventually(is_so, within=60)


async def _count(client: Client, namespace: str) -> None:
    """What the quota controller does."""
    found = await client.get(ResourceQuota, KEPT, namespace)
    status = {"hard": found.spec.hard, "used": dict.fromkeys(found.spec.hard, "0")}
    await client.patch(
        ResourceQuota, KEPT, namespace, body={"status": status}, subresource="status"
    )


# Verbs that such a run does not need.
AT_OTHER_TIMES = {
    ("tenancy.edgewise.dev", "subnamespaces", "get"),  # before a lost subtenant is swept
    ("tenancy.edgewise.dev", "subnamespaces", "delete"),  # when it expires
    ("tenancy.edgewise.dev", "tenantresourcequotas", "get"),  # read again when in doubt
    ("", "limitranges", "get"),
    ("", "limitranges", "patch"),  # when what is counted changes
    ("", "limitranges", "delete"),  # when a tenant's quota goes
    ("", "resourcequotas", "get"),
    ("", "resourcequotas", "delete"),
    ("", "persistentvolumeclaims", "list"),  # of a namespace that ends
    ("networking.k8s.io", "networkpolicies", "get"),
    ("networking.k8s.io", "networkpolicies", "patch"),  # when the parameters change
    ("networking.k8s.io", "networkpolicies", "delete"),
    ("rbac.authorization.k8s.io", "rolebindings", "get"),
    ("rbac.authorization.k8s.io", "rolebindings", "delete"),  # a copy whose original is gone
    ("rbac.authorization.k8s.io", "clusterroles", "bind"),  # asked for by the API server itself
}
