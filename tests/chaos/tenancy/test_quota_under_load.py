"""Quota while many create pods at once, and while Kubernetes does not count."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Iterator
from random import Random

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
    Workspace,
)
from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists, ApiError, Forbidden
from edgewise.kube.kinds.core import Pod, ResourceQuota, ServiceAccount
from edgewise.local.clusters import LocalCluster
from edgewise.local.machines import processes
from edgewise.tenancy.names import KEPT, SUBNAMESPACES, child_name
from edgewise.testing.eventually import eventually
from tests.chaos.tenancy.operators import operator
from tests.chaos.tenancy.witness import NOT_YET, Witness, at_rest

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
GRANTS = 100 if LONG else 12
CREATORS = 8
TOTAL = 60
SPACE = Workspace(inherit=["RBAC"])
_POD = {"containers": [{"name": "main", "image": "none"}]}

pytestmark = pytest.mark.chaos


async def tenant(admin: Client, **resources: int) -> str:
    root = f"q-{secrets.token_hex(4)}"
    spec = TenantResourceQuotaSpec(claims={"all": Share(resources={**resources})})
    await admin.create(TenantResourceQuota.named(root, spec=spec))
    owner = Subject(kind="User", name="alice")
    await admin.create(Tenant.named(root, spec=TenantSpec(owners=[owner])))

    async def established() -> None:
        assert (await admin.get(Tenant, root)).status.state == "Established"

    await eventually(established, within=60, not_yet=NOT_YET)
    return root


async def child(admin: Client, root: str, name: str, **resources: int) -> str:
    spec = SubNamespaceSpec(workspace=SPACE, resources={**resources})
    await admin.create(SubNamespace.named(name, root, spec=spec))

    async def established() -> None:
        status = (await admin.get(SubNamespace, name, root)).status
        assert status.state == "Established", status

    await eventually(established, within=60, not_yet=NOT_YET)
    return child_name(root, name)


async def admits(admin: Client, namespace: str) -> None:
    """Until pods come in there: the account for them is made, and the quota is counted."""
    pod = Pod.named("first", namespace, spec=_POD)
    await eventually(lambda: _rehearse(admin, pod), within=60, not_yet=(ApiError,))


async def _rehearse(admin: Client, pod: Pod) -> None:
    await admin.create(pod, dry_run=True)


@pytest.mark.timeout(600)
async def test_a_flood_of_pods_during_grants_comes_no_further_than_its_creators(
    cluster: LocalCluster, admin: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    async with cluster.client() as eyes, cluster.client() as mine, operator(mine):
        root = await tenant(admin, pods=TOTAL)
        places = [root, *[await child(admin, root, f"c{each}", pods=2) for each in range(4)]]
        for each in places:
            await admits(admin, each)
        async with Witness(eyes).watching() as witness:
            flood = [asyncio.create_task(_create(admin, places, each)) for each in range(CREATORS)]
            chance = Random(1)
            for number in range(GRANTS):
                body = {"spec": {"resources": {"pods": chance.randrange(12)}}}
                await admin.patch(SubNamespace, f"c{number % 4}", root, body=body)
                await asyncio.sleep(0.1)
            assert not any(each.done() for each in flood)
            for each in flood:
                each.cancel()
            await asyncio.wait(flood)
            await eventually(lambda: at_rest(admin, root), within=120, not_yet=NOT_YET)
        over = witness.pods_over(root)
        with capsys.disabled():
            print(f"\npods_over {over}, creators {CREATORS}, grants {GRANTS}")  # noqa: T201
        assert over <= CREATORS
        assert not witness.broken(root)


async def _create(admin: Client, places: list[str], number: int) -> None:
    """As many pods as come in; when none does, one of one's own goes."""
    chance, own, made = Random(number), [], 0
    while True:
        where, made = chance.choice(places), made + 1
        name = f"p{number}-{made}"
        try:
            await admin.create(Pod.named(name, where, spec=_POD))
            own.append((name, where))
        except ApiError:
            if own:
                old, there = own.pop(0)
                with contextlib.suppress(ApiError):
                    await admin.delete(Pod, old, there, grace_seconds=0)


@contextlib.contextmanager
def paused(cluster: LocalCluster, component: str) -> Iterator[None]:
    (process,) = [each for each in cluster.running() if each.component == component]
    processes.send(process, signal.SIGSTOP)
    try:
        yield
    finally:
        processes.send(process, signal.SIGCONT)


@pytest.mark.timeout(300)
async def test_nothing_enters_a_new_child_while_kubernetes_does_not_count(
    cluster: LocalCluster, admin: Client
) -> None:
    async with cluster.client() as mine, operator(mine):
        root = await tenant(admin, pods=5)
        await admits(admin, root)
        with paused(cluster, "kube-controller-manager"):
            made = await child(admin, root, "team", pods=3)
            with contextlib.suppress(AlreadyExists):
                await admin.create(ServiceAccount.named("default", made))
            for number in range(5):
                with pytest.raises(Forbidden, match="quota"):
                    await admin.create(Pod.named(f"p{number}", made, spec=_POD))
            assert not (await admin.list(Pod, made)).items
        await admits(admin, made)


@pytest.mark.timeout(300)
async def test_the_number_of_namespaces_is_limited_and_counted_at_once(
    cluster: LocalCluster, admin: Client
) -> None:
    """Also in a child, whose quota Kubernetes has not looked at yet."""
    async with cluster.client() as mine, operator(mine):
        root = await tenant(admin, **{"pods": 5, SUBNAMESPACES: 4})
        with paused(cluster, "kube-controller-manager"):
            found = await admin.get(ResourceQuota, KEPT, root)
            assert SUBNAMESPACES in found.status.used
            # Two for itself: it is one of its parent's four, which has one left.
            made = await child(admin, root, "team", **{SUBNAMESPACES: 2})
            below = SubNamespaceSpec(workspace=SPACE)
            for name in ("one", "two"):
                await admin.create(SubNamespace.named(name, made, spec=below))
            with pytest.raises(Forbidden, match="exceeded quota"):
                await admin.create(SubNamespace.named("three", made, spec=below))
            await admin.create(SubNamespace.named("last", root, spec=below))
            with pytest.raises(Forbidden, match="exceeded quota"):
                await admin.create(SubNamespace.named("no-more", root, spec=below))
        await eventually(lambda: at_rest(admin, root), within=60, not_yet=NOT_YET)
