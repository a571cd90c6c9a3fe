"""The same objects as the operator's, written by a plain client.

An operator would look after a Tenant or a SubNamespace, whoever wrote it. So the floor has kinds of
its own, with the same schemas and rules in another group: the API server does the same for them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from edgewise.api.tenancy import Subject, SubNamespace, SubNamespaceSpec, Tenant, TenantSpec
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.kinds.rbac import RbacSubject
from edgewise.kube.objects import Kind
from edgewise.tenancy.surroundings import Door, Surroundings
from edgewise.tenancy.tree.manifests import binding_of, policy_of
from edgewise.tenancy.tree.seen import Branch

_GROUP = "bare.edgewise.dev"
_AROUND = Surroundings(
    cluster_uid="bare",
    operator=RbacSubject(kind="User", name="nobody"),
    doors=(Door("10.0.0.1", 443), Door("10.0.0.10", 53, "UDP")),
)
OWNER = Subject(kind="User", name="bench")
LABELS = {"bare.edgewise.dev/kept": "true"}


class BareTenant(Tenant):
    """A Tenant that no operator knows."""

    KIND: ClassVar = Kind(_GROUP, "v1alpha1", "Tenant", "tenants", namespaced=False)
    CRD: ClassVar = msgspec.structs.replace(Tenant.CRD, short_names=())


class BareSubNamespace(SubNamespace):
    """A SubNamespace that no operator knows."""

    KIND: ClassVar = Kind(_GROUP, "v1alpha1", "SubNamespace", "subnamespaces")
    CRD: ClassVar = msgspec.structs.replace(SubNamespace.CRD, short_names=())


KINDS = (BareTenant, BareSubNamespace)


async def bare_tenant(client: Client, name: str) -> None:
    await client.create(BareTenant.named(name, spec=TenantSpec(owners=[OWNER])))
    await bare_namespace(client, name)
    body = {"status": _status() | {"namespace": name}}
    await client.patch(BareTenant, name, body=body, subresource="status")


async def bare_child(client: Client, name: str, spec: SubNamespaceSpec) -> None:
    """The namespace that it is in stands for the parent; nothing depends on which it is."""
    await client.create(BareSubNamespace.named(name, "default", spec=spec))
    await bare_namespace(client, name)
    body = {"status": _status() | {"child": name, "mode": "Workspace", "children": 0}}
    await client.patch(BareSubNamespace, name, "default", body=body, subresource="status")


async def bare_namespace(client: Client, name: str) -> None:
    tenant = Tenant.named(name, spec=TenantSpec(owners=[OWNER]))
    branch = Branch(name=name, path=(), tenant=tenant, people=(OWNER,))
    made = Namespace.named(name)
    # As many labels, but none that makes it a tenant's.
    made.metadata.labels = {f"bare.example/{number}": name for number in range(5)}
    await client.create(made)
    # Without the label by which the operator knows what it keeps.
    policy, binding = policy_of(branch, tenant, _AROUND), binding_of(branch, _AROUND)
    policy.metadata.labels = binding.metadata.labels = LABELS
    await client.create(policy)
    await client.create(binding)


def _status() -> dict[str, Any]:
    condition = {
        "status": "True",
        "reason": "Established",
        "message": "",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {
        "observedGeneration": 1,
        "state": "Established",
        "conditions": [{**condition, "type": each} for each in ("Established", "Ready")],
    }
