"""While no operator runs: who is there works on, nothing opens, and nobody else is concerned."""

from __future__ import annotations

import secrets

import pytest

from edgewise.api.tenancy import Subject, SubNamespace, SubNamespaceSpec, Tenant, TenantSpec
from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError, Forbidden, NotFound
from edgewise.kube.kinds.core import ConfigMap, Namespace, Pod
from edgewise.kube.kinds.networking import (
    NetworkPolicy,
    NetworkPolicyIngressRule,
    NetworkPolicySpec,
)
from edgewise.local.clusters import LocalCluster
from edgewise.tenancy.names import child_name
from edgewise.testing.eventually import eventually
from tests.chaos.tenancy.operators import operator
from tests.chaos.tenancy.test_quota_under_load import SPACE, admits, child, tenant
from tests.chaos.tenancy.witness import NOT_YET, at_rest
from tests.e2e.tenancy.scene import as_user, bind

_POD = {"containers": [{"name": "main", "image": "none"}]}

pytestmark = pytest.mark.chaos


async def state(admin: Client, root: str, wanted: str) -> None:
    assert (await admin.get(Tenant, root)).status.state == wanted


@pytest.mark.timeout(300)
async def test_while_the_operator_is_away_tenants_work_nothing_opens_and_nobody_else_is_blocked(
    cluster: LocalCluster, admin: Client
) -> None:
    async with cluster.client() as mine, operator(mine):
        root = await tenant(admin, pods=3)
        team = await child(admin, root, "team", pods=1)
        closed = await tenant(admin, pods=3)
        await admin.patch(Tenant, closed, body={"spec": {"enabled": False}})
        await eventually(lambda: state(admin, closed, "Disabled"), within=60, not_yet=NOT_YET)
        await admits(admin, root)
        await admits(admin, team)
    late = f"late-{secrets.token_hex(4)}"
    async with as_user(cluster.kubeconfig, "alice") as alice:
        # Those who are there work, within their walls and their quota.
        await alice.create(ConfigMap.named("settings", team))
        await alice.create(Pod.named("one", team, spec=_POD))
        with pytest.raises(Forbidden, match="exceeded quota"):
            await alice.create(Pod.named("two", team, spec=_POD))
        everybody = NetworkPolicySpec(ingress=[NetworkPolicyIngressRule()])
        with pytest.raises(ApiError, match=r"network\.tenancy\.edgewise\.dev"):
            await alice.create(NetworkPolicy.named("open", team, spec=everybody))
        # What they ask for is taken, and waits.
        await alice.create(SubNamespace.named("new", root, spec=SubNamespaceSpec(workspace=SPACE)))
        with pytest.raises(NotFound):
            await admin.get(Namespace, child_name(root, "new"))
        # Nothing opens.
        await admin.patch(Tenant, closed, body={"spec": {"enabled": True}})
        with pytest.raises(Forbidden):
            await alice.create(ConfigMap.named("settings", closed))
        owner = Subject(kind="User", name="alice")
        await admin.create(Tenant.named(late, spec=TenantSpec(owners=[owner])))
        with pytest.raises(NotFound):
            await admin.get(Namespace, late)
        with pytest.raises(Forbidden):
            await alice.create(ConfigMap.named("settings", late))
    await _nobody_else_is_concerned(cluster, admin)
    async with cluster.client() as mine, operator(mine):
        for name in (root, closed, late):
            await eventually(
                lambda name=name: state(admin, name, "Established"), within=60, not_yet=NOT_YET
            )
        await eventually(lambda: at_rest(admin, root), within=60, not_yet=NOT_YET)
        await admin.get(Namespace, child_name(root, "new"))


async def _nobody_else_is_concerned(cluster: LocalCluster, admin: Client) -> None:
    """An administrator who is none of system:masters, in a namespace of no tenant."""
    name = f"plain-{secrets.token_hex(3)}"
    await bind(admin, "cluster-admin", f"ada-{name}")
    async with as_user(cluster.kubeconfig, f"ada-{name}") as ada:
        await ada.create(Namespace.named(name))
        await ada.create(ConfigMap.named("settings", name))
        await ada.create(NetworkPolicy.named("all", name))
        await bind(ada, "edit", "somebody", name)
        await admits(ada, name)
        await ada.create(Pod.named("one", name, spec=_POD))
        await ada.delete(Namespace, name)
