"""Trees of namespaces on real Kubernetes: each test has a tenant of its own, and is named after
the rule that it shows."""

from __future__ import annotations

import pytest

from edgewise.api.tenancy import (
    DISABLED,
    MANAGED,
    PARENT,
    STATE,
    TENANT_UID,
    SubNamespace,
    SubNamespaceSpec,
    Subtenant,
    Tenant,
    TenantSpec,
    Workspace,
)
from edgewise.kube.errors import Forbidden, NotFound
from edgewise.kube.kinds.core import (
    ConfigMap,
    Namespace,
    Secret,
)
from edgewise.kube.kinds.networking import NetworkPolicy
from edgewise.kube.kinds.rbac import RoleBinding
from edgewise.tenancy.names import KEPT, SUBJECTS, child_name
from edgewise.testing.eventually import eventually
from tests.e2e.tenancy.rig import RBAC_WORKSPACE, Rig, rig
from tests.e2e.tenancy.scene import as_user, bind, user

__all__ = ["rig"]


# Tenants ----------------------------------------------------------------------------------


async def test_a_tenant_has_a_namespace_with_its_labels_walls_and_owners(rig: Rig) -> None:
    made = await rig.tenant()
    found = await rig.owner.get(Namespace, rig.name)
    assert found.metadata.labels[TENANT_UID] == made.metadata.uid
    assert found.metadata.labels["pod-security.kubernetes.io/enforce"] == "baseline"
    assert found.metadata.annotations[STATE] == "Established"
    walls = await rig.owner.get(NetworkPolicy, KEPT, rig.name)
    assert walls.spec.directions == {"Ingress", "Egress"}
    subjects = (await rig.owner.get(RoleBinding, KEPT, rig.name)).subjects
    assert [each.name for each in subjects] == ["edgewise-operator", rig.name]


async def test_a_foreign_namespace_is_never_adopted(rig: Rig) -> None:
    await rig.admin.create(Namespace.named(rig.name))
    await rig.admin.create(Tenant.named(rig.name, spec=TenantSpec(owners=[user(rig.name)])))

    async def failed() -> None:
        status = (await rig.admin.get(Tenant, rig.name)).status
        assert status.state == "Failed/Collision", status

    await eventually(failed, within=30)
    found = await rig.admin.get(Namespace, rig.name)
    assert TENANT_UID not in found.metadata.labels
    assert not (await rig.admin.list(RoleBinding, rig.name)).items


async def test_what_the_operator_keeps_is_put_back(rig: Rig) -> None:
    await rig.tenant()
    await rig.admin.delete(NetworkPolicy, KEPT, rig.name)
    await rig.admin.patch(RoleBinding, KEPT, rig.name, body={"subjects": []})

    async def back() -> None:
        await rig.admin.get(NetworkPolicy, KEPT, rig.name)
        assert len((await rig.admin.get(RoleBinding, KEPT, rig.name)).subjects) == 2

    await eventually(back, within=30, not_yet=(NotFound, AssertionError))


async def test_a_disabled_tenant_can_do_nothing_and_gets_everything_back(rig: Rig) -> None:
    await rig.tenant()
    child = await rig.child("team", workspace=RBAC_WORKSPACE)
    await bind(rig.owner, "edgewise:tenant-viewer", "vera", rig.name)
    binding = "edgewise-tenant-viewer-vera"
    before = (await rig.admin.get(RoleBinding, binding, rig.name)).subjects
    await rig.admin.patch(Tenant, rig.name, body={"spec": {"enabled": False}})

    async def state(wanted: str) -> None:
        assert (await rig.admin.get(Tenant, rig.name)).status.state == wanted

    await eventually(lambda: state("Disabled"), within=30)
    for namespace in (rig.name, child):
        assert (await rig.admin.get(Namespace, namespace)).metadata.labels[DISABLED] == "true"
        with pytest.raises(Forbidden):
            await rig.owner.create(ConfigMap.named("x", namespace))
    emptied = await rig.admin.get(RoleBinding, binding, rig.name)
    assert not emptied.subjects
    assert SUBJECTS in emptied.metadata.annotations
    await rig.admin.patch(Tenant, rig.name, body={"spec": {"enabled": True}})
    await eventually(lambda: state("Established"), within=30)
    filled = await rig.admin.get(RoleBinding, binding, rig.name)
    assert filled.subjects == before
    assert SUBJECTS not in filled.metadata.annotations
    await rig.owner.create(ConfigMap.named("x", child))


async def test_a_tenant_goes_with_all_its_namespaces_after_it_was_disabled(rig: Rig) -> None:
    await rig.tenant()
    child = await rig.child("team", workspace=RBAC_WORKSPACE)
    grandchild = await rig.child("deep", child, workspace=RBAC_WORKSPACE)
    with pytest.raises(Forbidden, match="disable a tenant"):
        await rig.admin.delete(Tenant, rig.name)
    await rig.admin.patch(Tenant, rig.name, body={"spec": {"enabled": False}})
    await rig.admin.delete(Tenant, rig.name)
    for namespace in (grandchild, child, rig.name):
        await rig.gone(namespace)


# The tree ---------------------------------------------------------------------------------


async def test_a_subtenant_is_a_tenant_that_its_parent_cannot_look_into(rig: Rig) -> None:
    await rig.tenant()
    child = await rig.child("shop", subtenant=Subtenant(owner=user(f"{rig.name}-sam")))
    tenant = await rig.admin.get(Tenant, child)
    found = await rig.admin.get(Namespace, child)
    assert found.metadata.labels[TENANT_UID] == tenant.metadata.uid
    assert found.metadata.labels[PARENT] == rig.name
    with pytest.raises(Forbidden):
        await rig.owner.list(Secret, child)
    async with as_user(rig.cluster.kubeconfig, f"{rig.name}-sam") as sam:
        await sam.list(Secret, child)
    await rig.owner.delete(SubNamespace, "shop", rig.name)
    await rig.ends(child)

    async def ended() -> bool:
        return child not in {each.metadata.name for each in (await rig.admin.list(Tenant)).items}

    await eventually(ended, within=20)


async def test_deleting_a_subnamespace_with_children_needs_cascade(rig: Rig) -> None:
    await rig.tenant()
    child = await rig.child("team", workspace=RBAC_WORKSPACE)
    grandchild = await rig.child("deep", child, workspace=RBAC_WORKSPACE)

    async def counted() -> None:
        assert (await rig.state("team")).children == 1

    await eventually(counted, within=20)
    with pytest.raises(Forbidden, match="Cascade"):
        await rig.owner.delete(SubNamespace, "team", rig.name)
    body = {"spec": {"deletion": "Cascade"}}
    await rig.owner.patch(SubNamespace, "team", rig.name, body=body)
    await rig.owner.delete(SubNamespace, "team", rig.name)
    await rig.gone(child)
    await rig.ends(grandchild)


async def test_a_subnamespace_expires(rig: Rig) -> None:
    await rig.tenant()
    child = await rig.child("guest", workspace=RBAC_WORKSPACE)
    await rig.expire("guest")
    await rig.ends(child)
    with pytest.raises(NotFound):
        await rig.owner.get(SubNamespace, "guest", rig.name)


async def test_continuous_inheritance_follows_its_parent(rig: Rig) -> None:
    await rig.tenant()
    await rig.owner.create(ConfigMap.named("settings", rig.name, data={"a": "1"}))
    kept = ConfigMap.named("private", rig.name, data={"a": "1"})
    kept.metadata.annotations = {"tenancy.edgewise.dev/inherit": "false"}
    await rig.owner.create(kept)
    space = Workspace(inherit=["RBAC", "ConfigMap"], sync="Continuous")
    child = await rig.child("team", workspace=space)

    async def follows(value: str | None) -> None:
        found = {
            each.metadata.name: each
            for each in (await rig.owner.list(ConfigMap, child)).items
            if each.metadata.labels.get(MANAGED) == "copy"
        }
        assert set(found) == ({"settings"} if value else set())
        assert value is None or found["settings"].data == {"a": value}

    await eventually(lambda: follows("1"), within=20)
    await rig.owner.patch(ConfigMap, "settings", rig.name, body={"data": {"a": "2"}})
    await eventually(lambda: follows("2"), within=20)
    with pytest.raises(Forbidden, match="kept by the operator"):
        await rig.owner.patch(ConfigMap, "settings", child, body={"data": {"a": "3"}})
    # An administrator may, and it is undone.
    await rig.admin.patch(ConfigMap, "settings", child, body={"data": {"a": "3"}})
    await eventually(lambda: follows("2"), within=20)
    await rig.owner.delete(ConfigMap, "settings", rig.name)
    await eventually(lambda: follows(None), within=20)


async def test_inheritance_once_leaves_namesakes_and_tokens_alone(rig: Rig) -> None:
    await rig.tenant()
    await rig.owner.create(Secret.named("login", rig.name, data={"a": b"1"}))
    helm = Secret.named("release", rig.name, type="helm.sh/release.v1", data={"a": b"1"})
    await rig.owner.create(helm)
    child = await rig.child("team", workspace=Workspace(inherit=["RBAC", "Secret"]))

    async def copied() -> None:
        names = {each.metadata.name for each in (await rig.owner.list(Secret, child)).items}
        assert names == {"login"}

    await eventually(copied, within=20)
    # It was copied once, and is the child's own now.
    await rig.owner.delete(Secret, "login", child)
    await rig.owner.patch(SubNamespace, "team", rig.name, body={"spec": {"labels": {"a": "b"}}})

    async def labelled() -> None:
        labels = (await rig.admin.get(Namespace, child)).metadata.labels
        assert labels.get("team.tenant.edgewise.dev/a") == "b"

    await eventually(labelled, within=20)
    assert not (await rig.owner.list(Secret, child)).items


async def test_too_deep_says_the_path(rig: Rig) -> None:
    await rig.tenant(max_depth=1)
    child = await rig.child("team", workspace=RBAC_WORKSPACE)
    deep = SubNamespaceSpec(workspace=RBAC_WORKSPACE)
    await rig.owner.create(SubNamespace.named("deep", child, spec=deep))

    async def told() -> None:
        status = await rig.state("deep", child)
        assert status.state == "Failed/TooDeep"
        assert f"{rig.name}/{child}/deep" in status.conditions[0].message

    await eventually(told, within=20)
    with pytest.raises(NotFound):
        await rig.admin.get(Namespace, child_name(child, "deep"))
