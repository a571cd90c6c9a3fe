"""Quota that is shared out in a tree, on real Kubernetes, counted by its quota controller."""

from __future__ import annotations

import asyncio
import datetime

import pytest

from edgewise.api.tenancy import (
    Share,
    SubNamespace,
    SubNamespaceSpec,
    Subtenant,
    Tenant,
    TenantResourceQuota,
    TenantResourceQuotaSpec,
    TenantSpec,
)
from edgewise.kube.errors import Forbidden, NotFound
from edgewise.kube.kinds.core import (
    ConfigMap,
    Namespace,
    Pod,
)
from edgewise.kube.kinds.rbac import RoleBinding
from edgewise.tenancy.names import KEPT, child_name
from edgewise.testing.eventually import eventually
from tests.e2e.tenancy.rig import RBAC_WORKSPACE, Rig, rig
from tests.e2e.tenancy.scene import established, user

__all__ = ["rig"]


# Quota ------------------------------------------------------------------------------------


async def test_quota_is_shared_out_overdrawn_and_taken_back(rig: Rig) -> None:
    await rig.quota(pods=10)
    await rig.tenant()
    child = await rig.child("team", workspace=RBAC_WORKSPACE, resources={"pods": 6})
    assert (await rig.hard(rig.name), await rig.hard(child)) == (4, 6)
    much = SubNamespaceSpec(workspace=RBAC_WORKSPACE, resources={"pods": 5})
    await rig.owner.create(SubNamespace.named("more", rig.name, spec=much))

    async def short() -> None:
        status = await rig.state("more")
        assert status.state == "Failed/QuotaShort"
        assert "4 is free" in status.conditions[0].message

    await eventually(short, within=20)
    with pytest.raises(NotFound):
        await rig.admin.get(Namespace, child_name(rig.name, "more"))
    await rig.owner.patch(SubNamespace, "team", rig.name, body={"spec": {"resources": {"pods": 2}}})
    await established(rig.owner, SubNamespace, "more", rig.name)
    assert await rig.hard(child) == 2
    assert await rig.hard(child_name(rig.name, "more")) == 5


async def test_what_is_used_is_not_taken_back(rig: Rig) -> None:
    await rig.quota(pods=4)
    await rig.tenant()
    child = await rig.child("team", workspace=RBAC_WORKSPACE, resources={"pods": 3})
    for _ in range(3):
        await rig.pod(child)
    await rig.owner.patch(SubNamespace, "team", rig.name, body={"spec": {"resources": {"pods": 0}}})
    await asyncio.sleep(1)
    assert (await rig.hard(rig.name), await rig.hard(child)) == (1, 3)
    for each in (await rig.owner.list(Pod, child)).items:
        await rig.admin.delete(Pod, each.metadata.name, child, grace_seconds=0)

    async def back() -> None:
        assert (await rig.hard(rig.name), await rig.hard(child)) == (4, 0)

    await eventually(back, within=30)


async def test_when_the_total_falls_nothing_is_deleted_and_nothing_new_comes_in(rig: Rig) -> None:
    await rig.quota(pods=4)
    await rig.tenant()
    child = await rig.child("team", workspace=RBAC_WORKSPACE, resources={"pods": 3})
    for _ in range(3):
        await rig.pod(child)
    await rig.total(pods=1)

    async def over() -> None:
        status = (await rig.admin.get(TenantResourceQuota, rig.name)).status
        assert status.over == [child]
        assert (await rig.hard(rig.name), await rig.hard(child)) == (0, 1)

    await eventually(over, within=20)
    assert len((await rig.owner.list(Pod, child)).items) == 3
    with pytest.raises(Forbidden, match="exceeded quota"):
        await rig.pod(child)


async def test_a_grant_cannot_be_spent_again_while_its_child_ends(rig: Rig) -> None:
    await rig.quota(pods=3)
    await rig.tenant()
    child = await rig.child("team", workspace=RBAC_WORKSPACE, resources={"pods": 3})
    await rig.pod(child, "slow", meta={"finalizers": ["example.com/slow"]})
    await rig.owner.delete(SubNamespace, "team", rig.name)

    async def ends() -> None:
        assert (await rig.admin.get(Namespace, child)).metadata.deleting

    await eventually(ends, within=20)
    await asyncio.sleep(1)
    assert await rig.hard(rig.name) == 0
    with pytest.raises(Forbidden, match="exceeded quota"):
        await rig.pod(rig.name)
    await rig.admin.patch(Pod, "slow", child, body={"metadata": {"finalizers": None}})

    async def back() -> None:
        assert await rig.hard(rig.name) == 3

    await eventually(back, within=60)


async def test_a_finalizer_does_not_keep_a_grant(rig: Rig) -> None:
    await rig.quota(pods=3)
    await rig.tenant()
    child = await rig.child("team", workspace=RBAC_WORKSPACE, resources={"pods": 3})
    anchor = ConfigMap.named("anchor", child)
    anchor.metadata.finalizers = ["example.com/never"]
    await rig.owner.create(anchor)
    await rig.owner.delete(SubNamespace, "team", rig.name)

    async def back() -> None:
        assert await rig.hard(rig.name) == 3

    await eventually(back, within=30)
    assert (await rig.admin.get(Namespace, child)).metadata.deleting
    await rig.admin.patch(ConfigMap, "anchor", child, body={"metadata": {"finalizers": None}})
    await rig.gone(child)


async def test_pods_without_requests_work_with_quota(rig: Rig) -> None:
    await rig.quota(cpu="2", memory="4Gi")
    await rig.tenant()
    await rig.pod(rig.name, "plain")
    (container,) = (await rig.owner.get(Pod, "plain", rig.name)).spec["containers"]
    assert container["resources"]["requests"] == {"cpu": "100m", "memory": "128Mi"}


async def test_a_claim_that_expires_takes_its_amount_with_it(rig: Rig) -> None:
    await rig.quota(pods=2)
    await rig.tenant()

    async def give(**gift: object) -> None:
        body = {"spec": {"claims": {"gift": {"resources": {"pods": 3}, **gift}}}}
        await rig.admin.patch(TenantResourceQuota, rig.name, body=body)

    async def holds(pods: int) -> None:
        assert await rig.hard(rig.name) == pods

    await give()
    await eventually(lambda: holds(5), within=30)
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    await give(expiresAt=soon.isoformat())
    await eventually(lambda: holds(2), within=30)


async def test_a_quota_of_a_subtenant_says_that_nothing_follows_from_it(rig: Rig) -> None:
    await rig.tenant()
    child = await rig.child("shop", subtenant=Subtenant(owner=user("sue")))
    claims = {"all": Share(resources={"pods": 4})}
    await rig.admin.create(
        TenantResourceQuota.named(child, spec=TenantResourceQuotaSpec(claims=claims))
    )

    async def said() -> None:
        found = await rig.admin.get(TenantResourceQuota, child)
        assert "parent's grant" in found.status.conditions[0].message

    await eventually(said, within=20, not_yet=(AssertionError, IndexError))
    await rig.admin.delete(TenantResourceQuota, child)


async def test_nobody_comes_in_without_a_quota_that_kubernetes_does_not_take(rig: Rig) -> None:
    await rig.quota(**{"pods": 4, "a/b/c": 1})
    spec = TenantSpec(owners=[user(rig.name)])
    await rig.admin.create(Tenant.named(rig.name, spec=spec))

    async def said() -> None:
        found = await rig.admin.get(Tenant, rig.name)
        assert found.status.state == "Failed/QuotaUnreadable", found.status

    await eventually(said, within=20)
    with pytest.raises(NotFound):
        await rig.admin.get(RoleBinding, KEPT, rig.name)
    body = {"spec": {"claims": {"all": {"resources": {"a/b/c": None}}}}}
    await rig.admin.patch(TenantResourceQuota, rig.name, body=body)
    await established(rig.admin, Tenant, rig.name)


async def test_a_quota_that_names_nothing_is_refused(rig: Rig) -> None:
    with pytest.raises(Forbidden, match="name at least one resource"):
        await rig.quota()
