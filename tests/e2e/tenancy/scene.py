"""A cluster with two tenants, one of them a vendor with a subtenant, and their people.

The operator runs as a program with the rights of the chart; people are told apart by
impersonation, which the API server treats as it treats them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec

from edgewise.api.tenancy import (
    GROUP,
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
from edgewise.domain import install_domains
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.kinds.core import ConfigMap, Namespace, ServiceAccount
from edgewise.kube.kinds.rbac import RBAC, ClusterRole, PolicyRule
from edgewise.local.clusters import LocalCluster
from edgewise.operator import NAMESPACE
from edgewise.tenancy import parameters
from edgewise.tenancy.domain import TENANCY
from edgewise.tenancy.names import child_name
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port

ACCOUNT = "system:serviceaccount:acme:robot"
OPERATOR_USER = f"system:serviceaccount:{NAMESPACE}:edgewise-operator"
TEAM = child_name("acme", "team")
SHOP = child_name("acme", "shop")
RUNTIME = "sandboxed"
OVERHEAD = {"memory": "32Mi"}


@contextlib.asynccontextmanager
async def as_user(kubeconfig: Path, user: str = "") -> AsyncIterator[Client]:
    access = load_access(kubeconfig)
    if user:
        headers = [("Impersonate-User", user)]
        if user.startswith("system:serviceaccount:"):
            headers += [
                ("Impersonate-Group", "system:serviceaccounts"),
                ("Impersonate-Group", f"system:serviceaccounts:{user.split(':')[2]}"),
            ]
        headers.append(("Impersonate-Group", "system:authenticated"))
        access = msgspec.structs.replace(access, impersonation=tuple(headers))
    async with Client(access) as client:
        yield client


def operator_kubeconfig(cluster: LocalCluster, folder: Path) -> Path:
    """The operator as the chart runs it, as far as the API server can tell."""
    import yaml

    written = yaml.safe_load(cluster.kubeconfig.read_text())
    written["users"][0]["user"] |= {
        "as": OPERATOR_USER,
        "as-groups": ["system:serviceaccounts", "system:authenticated"],
    }
    file = folder / "operator-kubeconfig"
    file.write_text(yaml.safe_dump(written))
    return file


async def install(client: Client) -> None:
    """What the chart installs: CRDs, policies, roles, parameters, and the operator's rights."""
    await install_domains(client, [TENANCY], TENANCY.kinds)
    for name in (NAMESPACE,):
        with contextlib.suppress(Exception):
            await client.create(Namespace.named(name))
    rules = [
        *(
            rule
            for rights in TENANCY.rights
            if rights.program == "operator"
            for rule in rights.cluster
        ),
        # Leases and events are every operator's.
        PolicyRule(
            api_groups=["coordination.k8s.io", "events.k8s.io", ""],
            resources=["leases", "events", "secrets"],
            verbs=["get", "list", "watch", "create", "patch", "update"],
        ),
    ]
    await client.apply(ClusterRole.named("edgewise-operator-tenancy", rules=rules))
    await bind(client, "edgewise-operator-tenancy", OPERATOR_USER)


async def bind(client: Client, role: str, user: str, namespace: str = "") -> None:
    """A ClusterRole to a user, in all namespaces or in one."""
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    subject: dict[str, Any] = {"kind": "User", "name": user, "apiGroup": RBAC}
    body = {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": f"{role}-{user}".replace(":", "-").lower()},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
    where = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
    await client.request("POST", f"/apis/{RBAC}/v1/{where}", body=msgspec.json.encode(body))


@contextlib.contextmanager
def running_operator(
    cluster: LocalCluster, folder: Path, *, domain: str = "tenancy", namespace: str = NAMESPACE
) -> Iterator[subprocess.Popen[bytes]]:
    """That of tenancy has the rights of the chart, any other one those of an administrator."""
    port = free_port()
    ours = domain == TENANCY.name
    kubeconfig = operator_kubeconfig(cluster, folder) if ours else cluster.kubeconfig
    with (folder / "operator.log").open("ab") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "edgewise.cli",
                "operator",
                f"--kubeconfig={kubeconfig}",
                f"--domains={domain}",
                f"--namespace={namespace}",
                f"--listen=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
            env=os.environ,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def user(name: str) -> Subject:
    return Subject(kind="User", name=name)


async def established(client: Client, kind: Any, name: str, namespace: str = "") -> None:
    async def is_so() -> None:
        found = await client.get(kind, name, namespace)
        assert found.status.state == "Established", found.status

    await eventually(is_so, within=60)


async def populate(kubeconfig: Path) -> None:
    async with as_user(kubeconfig) as admin:
        told = {"runtimeClass": RUNTIME, "priorityClasses": "offered", "pullAlways": "true"}
        await admin.patch(
            ClusterRole,
            parameters.NAME,
            body={"metadata": {"annotations": parameters.annotations_of(told)}},
        )
        runtime = {"kind": "RuntimeClass", "apiVersion": "node.k8s.io/v1", "handler": "runc"}
        # Another one's overhead must not stay on a pod.
        larger = {**runtime, "overhead": {"podFixed": {"cpu": "1", "memory": "1Gi"}}}
        ours = {**runtime, "overhead": {"podFixed": OVERHEAD}}
        priority = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "value": 1}
        for name, path, made in (
            (RUNTIME, "/apis/node.k8s.io/v1/runtimeclasses", ours),
            ("other", "/apis/node.k8s.io/v1/runtimeclasses", larger),
            ("offered", "/apis/scheduling.k8s.io/v1/priorityclasses", priority),
        ):
            document = {**made, "metadata": {"name": name}}
            await admin.request("POST", path, body=msgspec.json.encode(document))
        claim = Share(resources={"pods": 20, "cpu": "8", "count/configmaps": 6})
        await admin.create(
            TenantResourceQuota.named("acme", spec=TenantResourceQuotaSpec(claims={"all": claim}))
        )
        for name, owner in (("acme", "alice"), ("other", "oscar")):
            await admin.create(Tenant.named(name, spec=TenantSpec(owners=[user(owner)])))
            await established(admin, Tenant, name)
        # Somebody of the cluster's staff, who may edit namespaces but is no administrator.
        staff = [
            PolicyRule(
                api_groups=[""],
                resources=["namespaces", "namespaces/status", "namespaces/finalize"],
                verbs=["get", "create", "update", "patch", "delete"],
            )
        ]
        await admin.apply(ClusterRole.named("staff", rules=staff))
        await bind(admin, "staff", "stan")
        # Somebody who may make namespaces below, and see no Secret.
        maker = [PolicyRule(api_groups=[GROUP], resources=["subnamespaces"], verbs=["create"])]
        await admin.apply(ClusterRole.named("maker", rules=maker))
    async with as_user(kubeconfig, "alice") as alice:
        await alice.create(ServiceAccount.named("robot", "acme"))
        await bind(alice, "edgewise:tenant-collaborator", "cora", "acme")
        await bind(alice, "edgewise:tenant-viewer", "vera", "acme")
        await bind(alice, "edgewise:tenant-admin", ACCOUNT, "acme")
        await alice.create(ConfigMap.named("settings", "acme", data={"a": "b"}))
        resident: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "resident"},
            "spec": {
                "runtimeClassName": RUNTIME,
                "containers": [{"name": "main", "image": "none"}],
            },
        }
        await alice.request(
            "POST", "/api/v1/namespaces/acme/pods", body=msgspec.json.encode(resident)
        )
        team = Workspace(inherit=["RBAC", "ConfigMap"], sync="Continuous")
        for name, spec in (
            (
                "team",
                SubNamespaceSpec(
                    workspace=team, resources={"pods": 5, "cpu": "2", "count/configmaps": 2}
                ),
            ),
            (
                "shop",
                SubNamespaceSpec(
                    subtenant=Subtenant(owner=user("sam")),
                    resources={"pods": 5, "cpu": "2", "count/configmaps": 2},
                ),
            ),
        ):
            await alice.create(SubNamespace.named(name, "acme", spec=spec))
            await established(alice, SubNamespace, name, "acme")
        below = SubNamespaceSpec(workspace=Workspace(inherit=["RBAC"]))
        await alice.create(SubNamespace.named("deep", TEAM, spec=below))
        await established(alice, SubNamespace, "deep", TEAM)
    async with as_user(kubeconfig) as admin:
        await bind(admin, "maker", "mia", "acme")

        async def counted() -> None:
            found = await admin.get(SubNamespace, "team", "acme")
            assert found.status.children == 1, found.status

        await eventually(counted, within=30)


def prepare(cluster: LocalCluster) -> None:
    async def run() -> None:
        async with cluster.client() as client:
            await install(client)

    asyncio.run(run())
