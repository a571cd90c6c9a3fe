"""Somebody edits a CRD by force, and writes what no operator can read: it is named, nothing ends,
and all goes on when it is gone."""

from __future__ import annotations

import secrets

import msgspec
import pytest

from edgewise.api.crd import crd_of
from edgewise.api.tenancy import SubNamespace, Tenant
from edgewise.kube.client import Client
from edgewise.local.clusters import LocalCluster
from edgewise.testing.eventually import eventually
from tests.chaos.tenancy.operators import operator
from tests.chaos.tenancy.test_quota_under_load import child, tenant
from tests.chaos.tenancy.witness import NOT_YET, at_rest

pytestmark = pytest.mark.chaos

_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.timeout(300)
async def test_a_subnamespace_that_cannot_be_read_is_named_and_all_goes_on_when_it_is_gone(
    cluster: LocalCluster, admin: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster.client() as mine, operator(mine):
        root = await tenant(admin, pods=5)
        loose = crd_of(SubNamespace)
        loose.spec["versions"][0]["schema"]["openAPIV3Schema"] = _ANYTHING
        await admin.apply(loose)
        try:
            bad = f"bad-{secrets.token_hex(3)}"

            async def taken() -> None:
                body = {
                    "apiVersion": SubNamespace.KIND.api_version,
                    "kind": "SubNamespace",
                    "metadata": {"name": bad},
                    # What the policies read is right: they would refuse it.
                    "spec": {"workspace": {"inherit": ["RBAC"]}, "labels": 7, "scope": 7},
                }
                path = SubNamespace.KIND.path(root)
                await admin.request("POST", path, body=msgspec.json.encode(body))

            await eventually(taken, within=60, not_yet=NOT_YET)
            await eventually(lambda: bad in caplog.text, within=60)
            # Who is there stays, and what needs no such object goes on.
            await tenant(admin, pods=1)
            assert (await admin.get(Tenant, root)).status.state == "Established"
            await admin.delete(SubNamespace, bad, root)
        finally:
            await admin.apply(crd_of(SubNamespace))
        await child(admin, root, "team", pods=2)
        await eventually(lambda: at_rest(admin, root), within=60, not_yet=NOT_YET)
