"""Rules of tenancy that the other files do not show, each by a test named after what it says."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from edgewise.api.tenancy import (
    DISABLED,
    TENANT_UID,
    Share,
    SubNamespace,
    SubNamespaceSpec,
    Subtenant,
    Tenant,
    TenantResourceQuota,
    TenantResourceQuotaSpec,
    Workspace,
)
from edgewise.kube.errors import Forbidden, Invalid, NotFound
from edgewise.kube.kinds.core import ConfigMap, LimitRange, Namespace, ResourceQuota
from edgewise.kube.kinds.networking import (
    NetworkPolicy,
    NetworkPolicyIngressRule,
    NetworkPolicySpec,
)
from edgewise.kube.kinds.rbac import ClusterRoleBinding, RoleBinding
from edgewise.kube.objects import OwnerReference
from edgewise.tenancy.names import KEPT, child_name
from edgewise.testing.eventually import eventually
from tests.e2e.tenancy.rig import RBAC_WORKSPACE, Rig, rig
from tests.e2e.tenancy.scene import OPERATOR_USER, as_user, bind, established, user

__all__ = ["rig"]


# What a tenant is made of -------------------------------------------------------------------


async def test_there_is_no_cluster_role_binding_for_a_tenant(rig: Rig) -> None:
    before = {each.metadata.name for each in (await rig.admin.list(ClusterRoleBinding)).items}
    await rig.tenant()
    await rig.child("team", workspace=RBAC_WORKSPACE)
    found = (await rig.admin.list(ClusterRoleBinding)).items
    new = [each for each in found if each.metadata.name not in before]
    assert not [each for each in new if rig.name in str(each)]


async def test_the_operator_binds_roles_in_namespaces_of_tenants_only(rig: Rig) -> None:
    await rig.tenant()
    async with as_user(rig.cluster.kubeconfig, OPERATOR_USER) as operator:
        with pytest.raises(Forbidden, match="namespaces of tenants only"):
            await bind(operator, "edgewise:tenant-viewer", "mallory", "default")
        await bind(operator, "edgewise:tenant-viewer", "vera", rig.name)


async def test_the_operator_itself_never_makes_a_namespace_that_is_there_a_tenants(
    rig: Rig,
) -> None:
    name = f"plain-{secrets.token_hex(3)}"
    await rig.admin.create(Namespace.named(name))
    mine = {"metadata": {"labels": {TENANT_UID: "x"}}}
    async with as_user(rig.cluster.kubeconfig, OPERATOR_USER) as operator:
        with pytest.raises(Forbidden, match="said when it is made"):
            await operator.patch(Namespace, name, body=mine)
    await rig.admin.delete(Namespace, name)


async def test_limits_and_quota_that_are_deleted_are_put_back(rig: Rig) -> None:
    await rig.quota(pods=3)
    await rig.tenant()
    await rig.admin.delete(LimitRange, KEPT, rig.name)
    await rig.admin.delete(ResourceQuota, KEPT, rig.name)

    async def back() -> None:
        await rig.admin.get(LimitRange, KEPT, rig.name)
        assert await rig.hard(rig.name) == 3

    await eventually(back, within=60, not_yet=(NotFound, KeyError))


async def test_policies_of_a_tenant_are_free_where_its_administrator_says_so(rig: Rig) -> None:
    await rig.tenant(cluster_network_policy=False)
    everybody = NetworkPolicySpec(ingress=[NetworkPolicyIngressRule()])
    await rig.owner.create(NetworkPolicy.named("open", rig.name, spec=everybody))


# The tree -------------------------------------------------------------------------------------


async def test_a_foreign_namespace_with_the_name_of_a_child_is_a_collision_until_it_goes(
    rig: Rig,
) -> None:
    await rig.tenant()
    name = child_name(rig.name, "team")
    await rig.admin.create(Namespace.named(name))
    spec = SubNamespaceSpec(workspace=RBAC_WORKSPACE)
    await rig.owner.create(SubNamespace.named("team", rig.name, spec=spec))

    async def told() -> None:
        status = await rig.state("team")
        assert status.state == "Failed/Collision", status
        assert f"a namespace {name} is there already" in status.conditions[0].message

    await eventually(told, within=60)
    assert TENANT_UID not in (await rig.admin.get(Namespace, name)).metadata.labels
    await rig.admin.delete(Namespace, name)
    await established(rig.owner, SubNamespace, "team", rig.name)


async def test_the_scope_of_a_subnamespace_is_immutable(rig: Rig) -> None:
    await rig.tenant()
    await rig.child("team", workspace=RBAC_WORKSPACE)
    with pytest.raises(Invalid, match="scope is immutable"):
        await rig.owner.patch(SubNamespace, "team", rig.name, body={"spec": {"scope": "Federated"}})


async def test_a_federated_child_carries_the_uid_of_its_cluster(rig: Rig) -> None:
    await rig.tenant()
    system = await rig.admin.get(Namespace, "kube-system")
    spec = SubNamespaceSpec(workspace=RBAC_WORKSPACE, scope="Federated")
    await rig.owner.create(SubNamespace.named("far", rig.name, spec=spec))
    await established(rig.owner, SubNamespace, "far", rig.name)
    found = (await rig.state("far")).child
    assert found == child_name(rig.name, "far", "Federated", system.metadata.uid)
    await rig.admin.get(Namespace, found)


async def test_a_namesake_in_the_child_is_left_alone_and_reported(rig: Rig) -> None:
    await rig.tenant()
    child = await rig.child("team", workspace=RBAC_WORKSPACE)
    await rig.owner.create(ConfigMap.named("settings", child, data={"a": "own"}))
    await rig.owner.create(ConfigMap.named("settings", rig.name, data={"a": "parent's"}))
    await rig.owner.create(ConfigMap.named("other", rig.name, data={"a": "1"}))
    space = {"workspace": {"inherit": ["RBAC", "ConfigMap"], "sync": "Continuous"}}
    await rig.owner.patch(SubNamespace, "team", rig.name, body={"spec": space})

    async def copied() -> None:
        await rig.owner.get(ConfigMap, "other", child)

    await eventually(copied, within=60, not_yet=(NotFound,))
    assert (await rig.owner.get(ConfigMap, "settings", child)).data == {"a": "own"}

    async def reported() -> None:
        found = {each.type: each for each in (await rig.state("team")).conditions}
        told = [each.message for name, each in found.items() if name == "Inherited"]
        assert told == [
            f"ConfigMap {child}/settings was there before its parent's, and is left alone"
        ]
        assert found["Ready"].status == "True"

    await eventually(reported, within=20)


async def test_an_owner_reference_of_a_tenant_holds_nothing_that_ends(rig: Rig) -> None:
    await rig.tenant()
    child = await rig.child("guest", workspace=RBAC_WORKSPACE)
    source = await rig.owner.get(SubNamespace, "guest", rig.name)
    anchor = ConfigMap.named("anchor", rig.name)
    anchor.metadata.finalizers = ["example.com/never"]
    anchor.metadata.owner_references = [
        OwnerReference(
            api_version=source.KIND.api_version,
            kind=source.KIND.kind,
            name="guest",
            uid=source.metadata.uid,
            block_owner_deletion=True,
        )
    ]
    await rig.admin.create(anchor)
    await rig.expire("guest")
    await rig.ends(child)
    with pytest.raises(NotFound):
        await rig.owner.get(SubNamespace, "guest", rig.name)
    body: dict[str, Any] = {"metadata": {"finalizers": None}}
    await rig.admin.patch(ConfigMap, "anchor", rig.name, body=body)


async def test_a_namespace_stuck_in_its_deletion_is_said_and_made_again_when_it_is_gone(
    rig: Rig,
) -> None:
    await rig.tenant()
    child = await rig.child("team", workspace=RBAC_WORKSPACE)
    anchor = ConfigMap.named("anchor", child)
    anchor.metadata.finalizers = ["example.com/never"]
    await rig.owner.create(anchor)
    await rig.owner.delete(SubNamespace, "team", rig.name)

    async def ends() -> None:
        assert (await rig.admin.get(Namespace, child)).metadata.deleting

    await eventually(ends, within=60)
    spec = SubNamespaceSpec(workspace=RBAC_WORKSPACE)
    await rig.owner.create(SubNamespace.named("team", rig.name, spec=spec))

    async def told() -> None:
        status = await rig.state("team")
        assert status.state == "Failed/Collision", status
        assert "is being deleted" in status.conditions[0].message

    await eventually(told, within=60)
    await rig.admin.patch(ConfigMap, "anchor", child, body={"metadata": {"finalizers": None}})
    await established(rig.owner, SubNamespace, "team", rig.name)


# Disabling ------------------------------------------------------------------------------------


async def test_subtenants_follow_a_tenant_that_is_disabled(rig: Rig) -> None:
    await rig.tenant()
    child = await rig.child("shop", subtenant=Subtenant(owner=user(f"{rig.name}-sam")))
    await rig.admin.patch(Tenant, rig.name, body={"spec": {"enabled": False}})

    async def closed() -> None:
        assert (await rig.admin.get(Tenant, child)).status.state == "Disabled"
        assert DISABLED in (await rig.admin.get(Namespace, child)).metadata.labels

    await eventually(closed, within=60)
    async with as_user(rig.cluster.kubeconfig, f"{rig.name}-sam") as sam:
        with pytest.raises(Forbidden):
            await sam.create(ConfigMap.named("x", child))


async def test_a_binding_wider_than_an_owners_stays_when_a_tenant_is_disabled(rig: Rig) -> None:
    """The operator may not edit what gives more than it has itself; all else is closed."""
    await rig.tenant()
    await bind(rig.admin, "cluster-admin", "wide", rig.name)
    await rig.admin.patch(Tenant, rig.name, body={"spec": {"enabled": False}})

    async def closed() -> None:
        assert (await rig.admin.get(Tenant, rig.name)).status.state == "Disabled"

    await eventually(closed, within=60)
    left = await rig.admin.get(RoleBinding, "cluster-admin-wide", rig.name)
    assert [each.name for each in left.subjects] == ["wide"]
    async with as_user(rig.cluster.kubeconfig, "wide") as wide:
        with pytest.raises(Forbidden, match="this tenant is disabled"):
            await wide.create(ConfigMap.named("x", rig.name))


# Quota ----------------------------------------------------------------------------------------


async def test_drops_greater_than_claims_say_the_total(rig: Rig) -> None:
    claims, drops = {"a": Share(resources={"pods": 3})}, {"b": Share(resources={"pods": 5})}
    spec = TenantResourceQuotaSpec(claims=claims, drops=drops)
    await rig.admin.create(TenantResourceQuota.named(rig.name, spec=spec))
    await rig.tenant()

    async def said() -> None:
        status = (await rig.admin.get(TenantResourceQuota, rig.name)).status
        assert status.total == {"pods": "0"}
        assert "drops of pods are 5, and the claims only 3" in status.conditions[0].message

    await eventually(said, within=60, not_yet=(IndexError,))


async def test_a_name_that_the_parent_lacks_says_what_it_has(rig: Rig) -> None:
    await rig.quota(pods=3)
    await rig.tenant()
    spec = SubNamespaceSpec(workspace=RBAC_WORKSPACE, resources={"cpu": "1"})
    await rig.owner.create(SubNamespace.named("team", rig.name, spec=spec))

    async def said() -> None:
        status = await rig.state("team")
        assert status.state == "Failed/QuotaShort", status
        assert "the parent has no quota of it; it has pods" in status.conditions[0].message

    await eventually(said, within=60)


async def test_a_name_left_out_is_nothing(rig: Rig) -> None:
    await rig.quota(pods=3)
    await rig.tenant()
    child = await rig.child("team", workspace=Workspace(inherit=["RBAC"]))
    assert await rig.hard(child) == 0
    assert await rig.hard(rig.name) == 3
