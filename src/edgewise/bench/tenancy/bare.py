"""The same objects as the operator's, written by a plain client."""

from __future__ import annotations

from edgewise.api.tenancy import (
    Share,
    Subject,
    Tenant,
    TenantResourceQuota,
    TenantResourceQuotaSpec,
    TenantSpec,
)
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.kinds.rbac import RbacSubject
from edgewise.tenancy.surroundings import Surroundings
from edgewise.tenancy.tree.manifests import binding_of, policy_of
from edgewise.tenancy.tree.seen import Branch

_AROUND = Surroundings(cluster_uid="bare", operator=RbacSubject(kind="User", name="nobody"))
_OWNER = Subject(kind="User", name="bare")


async def bare_tenant(client: Client, name: str) -> None:
    """A TenantResourceQuota stands for the Tenant: an operator would look after a real one."""
    await bare_record(client, name)
    await bare_namespace(client, name)
    status = {"status": {"total": {"state": "Established"}, "observedGeneration": 1}}
    await client.patch(TenantResourceQuota, name, body=status, subresource="status")


async def bare_record(client: Client, name: str) -> None:
    claims = {"all": Share(resources={"pods": 1})}
    spec = TenantResourceQuotaSpec(claims=claims)
    await client.create(TenantResourceQuota.named(name, spec=spec))


async def bare_namespace(client: Client, name: str) -> None:
    tenant = Tenant.named(name, spec=TenantSpec(owners=[_OWNER]))
    branch = Branch(name=name, path=(), tenant=tenant, people=(_OWNER,))
    made = Namespace.named(name)
    # As many labels, but none that makes it a tenant's.
    made.metadata.labels = {f"bare.example/{number}": name for number in range(5)}
    await client.create(made)
    # Without the label by which the operator knows what it keeps.
    policy, binding = policy_of(branch, tenant, _AROUND), binding_of(branch, _AROUND)
    policy.metadata.labels, binding.metadata.labels = {"bare": "true"}, {"bare": "true"}
    await client.create(policy)
    await client.create(binding)
