"""The doctor tries packets on real nodes, names what is missing, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise.api.tenancy import TENANT_UID, Tenant
from edgewise.cli.tenant.doctor.packets import probe, ready
from edgewise.cli.tenant.doctor.trial import DOCTOR, LOCAL_IMAGE, judge
from edgewise.kube.client import Client
from edgewise.kube.kinds.admission import ValidatingAdmissionPolicyBinding
from edgewise.kube.kinds.core import Namespace, ServiceAccount
from edgewise.kube.kinds.rbac import ClusterRole
from edgewise.local.clusters import LocalCluster
from edgewise.tenancy import parameters
from edgewise.testing.clusters import temporary_cluster
from edgewise.testing.eventually import eventually
from tests.e2e.tenancy.scene import prepare, running_operator

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with temporary_cluster("doctor", nodes=1) as cluster:
        prepare(cluster)
        with running_operator(cluster, tmp_path_factory.mktemp("doctor")):
            yield cluster


def command(cluster: LocalCluster, *words: str) -> list[str]:
    program = [sys.executable, "-m", "edgewise.cli", "tenant", "doctor"]
    return [*program, f"--kubeconfig={cluster.kubeconfig}", *words]


async def asked(cluster: LocalCluster, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = await asyncio.to_thread(
        subprocess.run,
        command(cluster, "--json", *words),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.stdout, done.stderr
    return done.returncode, {each["check"]: each for each in json.loads(done.stdout)}


async def nothing_is_left(client: Client) -> None:
    assert not (await client.list(Tenant, labels=f"{DOCTOR}=true")).items
    assert not (await client.list(Namespace, labels=TENANT_UID)).items


async def leads(cluster: LocalCluster) -> None:
    async def is_so() -> None:
        _, found = await asked(cluster, "--no-packets")
        assert found["operator"]["good"], found

    await eventually(is_so, within=60)


async def test_a_cluster_that_has_all_is_fine_and_clean_afterwards(cluster: LocalCluster) -> None:
    await leads(cluster)
    code, found = await asked(cluster)
    assert code == 0, found
    assert found["network"]["found"].endswith("nothing arrives between two")
    assert found["policies answer"]["good"]
    async with cluster.client() as client:
        await nothing_is_left(client)


@contextlib.asynccontextmanager
async def plain_pods(client: Client) -> AsyncIterator[list[Any]]:
    """Pods that no NetworkPolicy looks at: as if nobody enforced any."""
    names = ("open-1", "open-2")
    for name in names:
        await client.create(Namespace.named(name))
    try:
        made = [
            probe(name, where, LOCAL_IMAGE)
            for name, where in (("one", names[0]), ("two", names[0]), ("three", names[1]))
        ]
        for each in made:

            async def there(where: str = each.metadata.namespace) -> None:
                await client.get(ServiceAccount, "default", where)

            await eventually(there, within=30, not_yet=(Exception,))
            await client.create(each)
        yield [await ready(client, each, 60) for each in made]
    finally:
        for name in names:
            await client.delete(Namespace, name)


async def test_packets_that_cross_are_named(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise.cli.tenant.doctor.trial.PATIENCE", 0.5)
    async with cluster.client() as client, plain_pods(client) as pods:
        found = await judge(client, *pods)
    assert (found.good, found.reason) == (False, "NetworkNotEnforced")
    assert "TCP and UDP of one tenant arrives at another" in found.found


async def test_what_is_missing_is_named(cluster: LocalCluster) -> None:
    await leads(cluster)
    name = "pods.tenancy.edgewise.dev"
    async with cluster.client() as client:
        kept = await client.get(ValidatingAdmissionPolicyBinding, name)
        told = (await client.get(ClusterRole, parameters.NAME)).metadata.annotations
        await client.delete(ValidatingAdmissionPolicyBinding, name)
        await client.delete(ClusterRole, parameters.NAME)
        try:
            code, found = await asked(cluster)
        finally:
            await client.create(ValidatingAdmissionPolicyBinding.named(name, spec=kept.spec))
            role = ClusterRole.named(parameters.NAME)
            role.metadata.annotations = told
            await client.create(role)
    assert code == 1
    assert found["policies and roles"]["reason"] == "PoliciesMissing"
    assert name in found["policies and roles"]["found"]
    assert found["parameters"]["reason"] == "ParametersMissing"
    assert found["network"]["reason"] == "NotTried"
    assert found["kinds"]["good"]


async def test_a_runtime_class_that_is_not_there_is_named(cluster: LocalCluster) -> None:
    def body(name: str) -> dict[str, Any]:
        return {"metadata": {"annotations": parameters.annotations_of({"runtimeClass": name})}}

    async with cluster.client() as client:
        await client.patch(ClusterRole, parameters.NAME, body=body("none-such"))
        try:
            code, found = await asked(cluster, "--no-packets")
        finally:
            await client.patch(ClusterRole, parameters.NAME, body=body(""))
    assert (code, found["runtime class"]["reason"]) == (1, "RuntimeClassMissing")


async def test_ctrl_c_leaves_nothing(cluster: LocalCluster) -> None:
    await leads(cluster)
    async with cluster.client() as client:
        running = await asyncio.create_subprocess_exec(
            *command(cluster), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )

        async def begun() -> None:
            assert running.returncode is None
            assert (await client.list(Tenant, labels=f"{DOCTOR}=true")).items

        await eventually(begun, within=60, every=0.05)
        running.send_signal(signal.SIGINT)
        _, said = await asyncio.wait_for(running.communicate(), 120)
        assert running.returncode == 130, said
        assert b"Traceback" not in said
        await nothing_is_left(client)


def test_it_needs_a_cluster(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "edgewise.cli", "tenant", "doctor"),
            f"--kubeconfig={tmp_path / 'none'}",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
