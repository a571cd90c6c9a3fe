"""Tenancy with an operator that is killed at any of its writes.

`make test` plays some cut points, `make chaos` every one of them, before and after the write.
"""

from __future__ import annotations

import os
import random
import secrets
from typing import Any

import pytest

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
from edgewise.kube.kinds.core import ConfigMap, Namespace, Pod
from edgewise.local.clusters import LocalCluster
from edgewise.tenancy.domain import TENANCY
from edgewise.tenancy.names import child_name
from edgewise.testing.eventually import eventually
from tests.chaos.harness import Trial, survive
from tests.chaos.tenancy.witness import NOT_YET, Witness, at_rest

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
CUTS = 3
PATIENCE = 60.0

pytestmark = pytest.mark.chaos


def user(name: str) -> Subject:
    return Subject(kind="User", name=name)


async def is_so(client: Client, kind: Any, name: str, namespace: str, state: str) -> None:
    async def look() -> None:
        found = await client.get(kind, name, namespace)
        assert found.status.state == state, found.status
        assert found.status.observed_generation == found.metadata.generation

    await eventually(look, within=PATIENCE, every=0.05, not_yet=NOT_YET)


def tenant_of(namespace: str) -> str:
    """The operator has a namespace of its own in each run."""
    return f"t-{namespace}"


async def play(client: Client, namespace: str) -> None:
    """A tenant with quota: shares it out, over two levels, is cut, disabled, enabled, and ends a
    child. Each step waits for the one before: so each of the operator's writes has its place."""
    root = tenant_of(namespace)
    claims = {"all": Share(resources={"pods": 10})}
    spec = TenantResourceQuotaSpec(claims=claims)
    await client.create(TenantResourceQuota.named(root, spec=spec))
    await client.create(Tenant.named(root, spec=TenantSpec(owners=[user("alice")])))
    await is_so(client, Tenant, root, "", "Established")
    await client.create(ConfigMap.named("settings", root, data={"a": "b"}))
    team = SubNamespaceSpec(
        workspace=Workspace(inherit=["RBAC", "ConfigMap"]), resources={"pods": 4}
    )
    shop = SubNamespaceSpec(subtenant=Subtenant(owner=user("sam")), resources={"pods": 3})
    for name, made in (("team", team), ("shop", shop)):
        await client.create(SubNamespace.named(name, root, spec=made))
        await is_so(client, SubNamespace, name, root, "Established")
    below = SubNamespaceSpec(workspace=Workspace(inherit=["RBAC"]), resources={"pods": 1})
    child = child_name(root, "team")
    await client.create(SubNamespace.named("deep", child, spec=below))
    await is_so(client, SubNamespace, "deep", child, "Established")
    await client.patch(SubNamespace, "team", root, body={"spec": {"resources": {"pods": 2}}})
    await is_so(client, SubNamespace, "team", root, "Established")
    cut = {"spec": {"claims": {"all": {"resources": {"pods": 8}}}}}
    await client.patch(TenantResourceQuota, root, body=cut)
    await client.patch(Tenant, root, body={"spec": {"enabled": False}})
    await is_so(client, Tenant, root, "", "Disabled")
    await client.patch(Tenant, root, body={"spec": {"enabled": True}})
    await is_so(client, Tenant, root, "", "Established")
    await client.delete(SubNamespace, "shop", root)


async def well(client: Client, namespace: str) -> None:
    root = tenant_of(namespace)
    await at_rest(client, root)
    child = child_name(root, "team")
    found = await client.get(SubNamespace, "team", root)
    assert (found.status.state, found.status.granted) == ("Established", {"pods": "2"})
    assert found.status.children == 1
    copied = await client.get(ConfigMap, "settings", child)
    assert copied.data == {"a": "b"}
    names = {each.metadata.name for each in (await client.list(Namespace)).items}
    assert child_name(root, "shop") not in names
    assert not (await client.list(Pod, root)).items


@pytest.mark.timeout(3600)
async def test_no_promise_is_broken_when_the_operator_is_killed_at_any_write(
    admin: Client, cluster: LocalCluster
) -> None:
    trial = Trial(TENANCY, play, well)
    async with cluster.client() as eyes:
        writes = await _survive(trial, admin, eyes, None, after=False)
        assert writes > 20
        cuts = [(number, after) for number in range(1, writes + 1) for after in (False, True)]
        for cut_at, after in cuts if LONG else random.sample(cuts, CUTS):
            await _survive(trial, admin, eyes, cut_at, after=after)


async def _survive(
    trial: Trial, admin: Client, eyes: Client, cut_at: int | None, *, after: bool
) -> int:
    namespace = f"cut-{secrets.token_hex(4)}"
    async with Witness(eyes).watching() as witness:
        first = await survive(trial, admin, namespace, cut_at, after=after)
    moment = f"killed {'after' if after else 'before'} write {cut_at}"
    assert not (broken := witness.broken(tenant_of(namespace))), f"{moment}: {broken}"
    return first.writes
