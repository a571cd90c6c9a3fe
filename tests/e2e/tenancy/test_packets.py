"""Packets of three tenants and a subtenant on two real nodes: all inside, none across, whether an
operator runs or not."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewise.api.tenancy import SubNamespace, SubNamespaceSpec, Subtenant, Tenant, TenantSpec
from edgewise.kube.client import Client
from edgewise.kube.errors import Forbidden
from edgewise.kube.kinds.core import Pod
from edgewise.local.clusters import LocalCluster
from edgewise.tenancy.names import child_name
from edgewise.testing.clusters import temporary_cluster
from edgewise.testing.eventually import eventually
from tests.e2e.local.test_network_policy import arrives, crossings, server, until_ready
from tests.e2e.tenancy.rig import RBAC_WORKSPACE
from tests.e2e.tenancy.scene import as_user, established, prepare, running_operator, user

pytestmark = pytest.mark.root

_log = logging.getLogger(__name__)

TEAM, SHOP = child_name("acme", "team"), child_name("acme", "shop")
# Whose pods talk to each other.
TENANT_OF = {"acme": "acme", TEAM: "acme", SHOP: "shop", "bolt": "bolt", "coil": "coil"}
GATEWAY = {"app.kubernetes.io/component": "gateway"}
LOOKS_UP = "import socket; print(socket.gethostbyname('kubernetes.default.svc.cluster.local'))"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with temporary_cluster("packets", nodes=2) as made:
        prepare(made)
        yield made


async def tenants(admin: Client) -> None:
    for name in ("acme", "bolt", "coil"):
        spec = TenantSpec(owners=[user(f"owner-of-{name}")])
        await admin.create(Tenant.named(name, spec=spec))
        await established(admin, Tenant, name)
    for name, spec in (
        ("team", SubNamespaceSpec(workspace=RBAC_WORKSPACE)),
        ("shop", SubNamespaceSpec(subtenant=Subtenant(owner=user("sam")))),
    ):
        await admin.create(SubNamespace.named(name, "acme", spec=spec))
        await established(admin, SubNamespace, name, "acme")


async def pod(admin: Client, namespace: str, name: str, node: str) -> None:
    made = server(namespace, name, node)
    del made.spec["nodeName"]  # the scheduler places pods of tenants
    made.spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    if namespace == "bolt":
        made.metadata.labels |= GATEWAY

    async def admitted() -> None:
        await admin.create(made)

    # As soon as Kubernetes has made the account that pods run as.
    await eventually(admitted, within=60, not_yet=(Forbidden,))


def inside(pods: dict[str, Pod]) -> set[tuple[str, str, str]]:
    tenant = {name: TENANT_OF[each.metadata.namespace] for name, each in pods.items()}
    return {
        (kind, one, other)
        for kind in ("tcp", "udp")
        for one in pods
        for other in pods
        if one != other and tenant[one] == tenant[other]
    }


async def test_packets_cross_inside_a_tenant_and_not_between_with_and_without_an_operator(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    nodes = cluster.spec.node_names
    pods: dict[str, Pod] = {}
    figures: dict[str, dict[str, int]] = {}

    async def judge(when: str) -> None:
        wanted = inside(pods)

        async def as_wanted() -> None:
            assert await crossings(admin, pods) >= wanted

        await eventually(as_wanted, within=30)
        found = await crossings(admin, pods)
        figures[when] = {"inside": len(found & wanted), "across": len(found - wanted)}
        assert found == wanted, when

    async with as_user(cluster.kubeconfig) as admin:
        with running_operator(cluster, tmp_path):
            await tenants(admin)
            for namespace in TENANT_OF:
                for number, node in enumerate(nodes):
                    await pod(admin, namespace, f"{namespace}-{number}", node)
            for namespace in TENANT_OF:
                for number in range(len(nodes)):
                    name = f"{namespace}-{number}"
                    pods[name] = await until_ready(admin, namespace, name)
            await judge("before")
        # One that comes while nobody is there is confined, too.
        await pod(admin, "bolt", "late", nodes[0])
        pods["late"] = await until_ready(admin, "bolt", "late")
        await judge("during")
        with running_operator(cluster, tmp_path):
            await judge("after")
        addresses = cluster.record.addresses
        wanted = {("tcp", str(addresses.api_service), 443), ("tcp", str(addresses.dns_service), 53)}
        for name in ("acme-0", f"{SHOP}-1"):
            assert await arrives(admin, pods[name], wanted) == wanted
            where = pods[name].metadata
            found = await admin.exec(where.name, where.namespace, ["python3", "-c", LOOKS_UP])
            assert found.stdout.decode().strip() == str(addresses.api_service), found.stderr
    _log.info("packets: %s", json.dumps(figures))
