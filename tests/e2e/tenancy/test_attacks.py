"""People of a tenant who write what the operator reads."""

from __future__ import annotations

import pytest

from edgewise.api.tenancy import MANAGED, Subject, SubNamespace, SubNamespaceSpec, Tenant, Workspace
from edgewise.kube.errors import Forbidden, NotFound
from edgewise.kube.kinds.core import ConfigMap, LimitRange
from edgewise.kube.kinds.rbac import RoleBinding
from edgewise.tenancy.names import KEPT, SUBJECTS
from edgewise.testing.eventually import eventually
from tests.e2e.tenancy.rig import RBAC_WORKSPACE, Rig, rig
from tests.e2e.tenancy.scene import as_user, bind

__all__ = ["rig"]


async def test_an_annotation_keeps_nobodys_rights_in_a_disabled_tenant(rig: Rig) -> None:
    await rig.tenant()
    await bind(rig.owner, "edgewise:tenant-viewer", "vera", rig.name)
    name = "edgewise-tenant-viewer-vera"
    many = [{"kind": "User", "name": f"{each:060}", "apiGroup": RBAC_GROUP} for each in range(4000)]
    forged = {"metadata": {"annotations": {SUBJECTS: "[]"}}}
    await rig.owner.patch(RoleBinding, name, rig.name, body=forged)
    await bind(rig.owner, "edgewise:tenant-viewer", "all", rig.name)
    await rig.owner.patch(
        RoleBinding, "edgewise-tenant-viewer-all", rig.name, body={"subjects": many}
    )
    await rig.admin.patch(Tenant, rig.name, body={"spec": {"enabled": False}})

    async def state(wanted: str) -> None:
        assert (await rig.admin.get(Tenant, rig.name)).status.state == wanted

    await eventually(lambda: state("Disabled"), within=30)
    async with as_user(rig.cluster.kubeconfig, "vera") as vera:

        async def refused() -> None:
            with pytest.raises(Forbidden):
                await vera.list(ConfigMap, rig.name)

        await eventually(refused, within=10)
    assert not (await rig.admin.get(RoleBinding, "edgewise-tenant-viewer-all", rig.name)).subjects
    await rig.admin.patch(Tenant, rig.name, body={"spec": {"enabled": True}})
    await eventually(lambda: state("Established"), within=30)
    back = await rig.admin.get(RoleBinding, name, rig.name)
    assert [each.name for each in back.subjects] == ["vera"]


RBAC_GROUP = "rbac.authorization.k8s.io"


async def test_a_namespace_that_cannot_be_made_holds_up_no_other(rig: Rig) -> None:
    await rig.tenant()
    nobody = Subject(kind="ServiceAccount", name="No_Account!", namespace="default")
    spec = SubNamespaceSpec(workspace=Workspace(owner=nobody))
    await rig.owner.create(SubNamespace.named("bad", rig.name, spec=spec))

    async def said() -> None:
        assert (await rig.state("bad")).state == "Failed/Refused"

    await eventually(said, within=30)
    await rig.child("good", workspace=RBAC_WORKSPACE)


async def test_the_name_of_the_operators_limits_cannot_be_taken(rig: Rig) -> None:
    await rig.tenant()
    squatter = LimitRange.named(KEPT, rig.name)
    squatter.metadata.finalizers = ["example.com/mine"]
    await rig.owner.create(squatter)
    await rig.quota(pods=3)

    async def enforced() -> None:
        assert await rig.hard(rig.name) == 3
        found = await rig.admin.get(LimitRange, KEPT, rig.name)
        assert found.metadata.labels[MANAGED] == "true"
        assert not found.metadata.finalizers

    await eventually(enforced, within=30, not_yet=(NotFound, KeyError, AssertionError))


async def test_a_role_that_is_taken_back_is_gone_from_the_child(rig: Rig) -> None:
    await rig.tenant()
    await bind(rig.owner, "edgewise:tenant-collaborator", "bob", rig.name)
    name = "edgewise-tenant-collaborator-bob"
    space = Workspace(inherit=["RBAC"], sync="Continuous")
    child = await rig.child("team", workspace=space)

    async def role(wanted: str) -> None:
        assert (await rig.owner.get(RoleBinding, name, child)).role_ref.name == wanted

    await eventually(
        lambda: role("edgewise:tenant-collaborator"), within=20, not_yet=(NotFound, AssertionError)
    )
    again = await rig.owner.get(RoleBinding, name, rig.name)
    await rig.owner.delete(RoleBinding, name, rig.name)
    less = RoleBinding.named(name, rig.name, role_ref=again.role_ref, subjects=again.subjects)
    less.role_ref.name = "edgewise:tenant-viewer"
    await rig.owner.create(less)
    await eventually(
        lambda: role("edgewise:tenant-viewer"), within=20, not_yet=(NotFound, AssertionError)
    )
