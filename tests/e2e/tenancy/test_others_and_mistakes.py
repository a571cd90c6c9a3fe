"""Who is no tenant is not concerned, and bad input gets a sentence."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import secrets
from typing import Any

import msgspec
import pytest

from edgewise.api.tenancy import (
    Share,
    Subject,
    SubNamespace,
    SubNamespaceSpec,
    Tenant,
    TenantResourceQuota,
    TenantResourceQuotaSpec,
    TenantSpec,
)
from edgewise.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid
from edgewise.kube.kinds.core import (
    Namespace,
    Pod,
    ServiceAccount,
)
from edgewise.kube.kinds.networking import NetworkPolicy
from edgewise.kube.kinds.rbac import ClusterRole, PolicyRule
from edgewise.local.clusters import LocalCluster
from edgewise.tenancy import parameters
from tests.e2e.tenancy.escape.workloads import pod
from tests.e2e.tenancy.rig import RBAC_WORKSPACE, Rig, rig
from tests.e2e.tenancy.scene import as_user, bind

__all__ = ["rig"]


# Others -----------------------------------------------------------------------------------


async def test_who_is_no_tenant_is_not_concerned(tenants: LocalCluster) -> None:
    """An administrator who is none of system:masters, with and without the parameters."""
    async with as_user(tenants.kubeconfig) as admin:
        await bind(admin, "cluster-admin", "ada")
        kept = await admin.get(ClusterRole, parameters.NAME)
        async with as_user(tenants.kubeconfig, "ada") as ada:

            async def works() -> None:
                name = f"plain-{secrets.token_hex(3)}"
                await ada.create(Namespace.named(name))
                rule = PolicyRule(api_groups=[""], resources=["pods"], verbs=["get"])
                await ada.create(ClusterRole.named(name, rules=[rule]))
                await bind(ada, name, "somebody", name)
                await ada.create(NetworkPolicy.named("all", name))
                document = pod(nodeName="anywhere", runtimeClassName="other")
                path = Pod.KIND.path(name)
                with contextlib.suppress(AlreadyExists):
                    await admin.create(ServiceAccount.named("default", name))
                await ada.request("POST", path, body=msgspec.json.encode(document))
                await ada.delete(ClusterRole, name)
                await ada.delete(Namespace, name)

            await works()
            await admin.delete(ClusterRole, parameters.NAME)
            try:
                await asyncio.sleep(1)
                await works()
                async with as_user(tenants.kubeconfig, "alice") as alice:
                    with pytest.raises(ApiError, match="no params found"):
                        await alice.request(
                            "POST", Pod.KIND.path("acme"), body=msgspec.json.encode(pod())
                        )
            finally:
                again = ClusterRole.named(parameters.NAME)
                again.metadata.annotations = kept.metadata.annotations
                await admin.create(again)


# Bad input --------------------------------------------------------------------------------

BAD = {
    "both modes": (
        {
            "workspace": {"inherit": ["RBAC"]},
            "subtenant": {"owner": {"kind": "User", "name": "bob"}},
        },
        "choose either workspace .* or subtenant",
    ),
    "neither mode": ({}, "choose either workspace"),
    "an unknown kind to inherit": (
        {"workspace": {"inherit": ["Pod"]}},
        r'inherit\[0\]: Unsupported value: "Pod": supported values: .*"RBAC"',
    ),
    "nobody could get in": ({"workspace": {"inherit": ["Secret"]}}, "owner is needed"),
    "an amount that is none": (
        {"workspace": {"inherit": ["RBAC"]}, "resources": {"cpu": "many"}},
        "spec.resources.cpu",
    ),
    "a negative amount": (
        {"workspace": {"inherit": ["RBAC"]}, "resources": {"cpu": "-1"}},
        "spec.resources.cpu",
    ),
    "a negative number": (
        {"workspace": {"inherit": ["RBAC"]}, "resources": {"pods": -1}},
        "spec.resources.pods",
    ),
    "a moment that is none": (
        {"workspace": {"inherit": ["RBAC"]}, "expiresAt": "tomorrow"},
        "date-time",
    ),
    "an owner of unknown kind": (
        {"subtenant": {"owner": {"kind": "Robot", "name": "x"}}},
        r'owner\.kind: Unsupported value: "Robot": supported values: .*"User"',
    ),
    "an account without a namespace": (
        {"subtenant": {"owner": {"kind": "ServiceAccount", "name": "x"}}},
        "ServiceAccount with a namespace",
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_bad_input_is_refused_with_a_sentence(tenants: LocalCluster, case: str) -> None:
    spec, says = BAD[case]
    body = {
        "apiVersion": SubNamespace.KIND.api_version,
        "kind": "SubNamespace",
        "metadata": {"name": "bad"},
        "spec": spec,
    }
    path = SubNamespace.KIND.path("acme")
    async with as_user(tenants.kubeconfig, "alice") as alice:
        with pytest.raises(ApiError, match=says):
            await alice.request("POST", path, body=msgspec.json.encode(body))


@pytest.mark.parametrize("name", ["kube-system", "kube-mine", "default", "edgewise-system"])
async def test_a_name_that_is_reserved_is_refused(tenants: LocalCluster, name: str) -> None:
    """An administrator's slip: the tenant's owners would own what Kubernetes lives in."""
    spec = TenantSpec(owners=[Subject(kind="User", name="mallory")])
    async with as_user(tenants.kubeconfig) as admin:
        with pytest.raises(Invalid, match=r"metadata\.name is reserved: names that begin with"):
            await admin.create(Tenant.named(name, spec=spec))


@pytest.mark.parametrize(
    ("name", "scope", "longest"), [("n" * 53, "Local", "52"), ("n" * 16, "Federated", "15")]
)
async def test_a_name_too_long_says_the_longest(
    tenants: LocalCluster, name: str, scope: Any, longest: str
) -> None:
    spec = SubNamespaceSpec(workspace=RBAC_WORKSPACE, scope=scope)
    async with as_user(tenants.kubeconfig, "alice") as alice:
        with pytest.raises(Invalid, match=f"more than {longest}"):
            await alice.create(SubNamespace.named(name, "acme", spec=spec))


@pytest.mark.parametrize("resources", [{"cpu": "x"}, {"cpu": "-1"}, {"bananas": 3}])
async def test_a_quota_that_cannot_be_is_refused(tenants: LocalCluster, resources: Any) -> None:
    spec = TenantResourceQuotaSpec(claims={"all": Share(resources=resources)})
    async with as_user(tenants.kubeconfig) as admin:
        with pytest.raises(Forbidden, match=r"spec\.claims"):
            await admin.create(TenantResourceQuota.named("bad", spec=spec))


async def test_what_is_over_before_it_begins_is_refused(rig: Rig) -> None:
    await rig.tenant()
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    spec = SubNamespaceSpec(workspace=RBAC_WORKSPACE, expires_at=past)
    with pytest.raises(Forbidden, match=r"expiresAt lies in the past: it is .* now; write it like"):
        await rig.owner.create(SubNamespace.named("late", rig.name, spec=spec))
