"""A slice on real nodes: kubelets end the pods, and the scheduler places them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewise.api.tenancy import (
    SLICE,
    SubNamespace,
    SubNamespaceSpec,
    Tenant,
    TenantSpec,
    Workspace,
)
from edgewise.api.tenancy_slices import (
    ClaimRef,
    NodeTerm,
    Slice,
    SliceClaim,
    SliceClaimSpec,
    SliceSpec,
)
from edgewise.kube.client import Client
from edgewise.kube.errors import Forbidden, NotFound
from edgewise.kube.kinds.admission import MutatingWebhookConfiguration
from edgewise.kube.kinds.apps import DaemonSet
from edgewise.kube.kinds.core import Node, Pod
from edgewise.kube.kinds.policy import PodDisruptionBudget
from edgewise.local.clusters import LocalCluster
from edgewise.local.images.building import PYTHON_IMAGE
from edgewise.operator import WEBHOOKS
from edgewise.tenancy.names import child_name
from edgewise.tenancy.slices.pinning import NAME as PODS_OF_SLICES
from edgewise.testing.clusters import temporary_cluster
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port
from tests.e2e.tenancy.scene import as_user, established, operator_kubeconfig, prepare, user
from tests.e2e.tenancy.slices.allowing import allow

SHARES = "slices"

_log = logging.getLogger(__name__)

GRACE = 8
WITHIN = 120.0
# What was promised: a node is empty so long after the grace, and shared so long after the end.
EMPTY_WITHIN, SHARED_WITHIN = 10.0, 5.0
HOST = "kubernetes.io/hostname"
PATIENT = "while :; do sleep 1; done"
DEAF = f"trap '' TERM; {PATIENT}"
# It ends at once when it is told to.
POLITE = "trap 'exit 0' TERM; while :; do sleep 0.2; done"


class Operator:
    """With a webhook for pods of slices, which nobody needs here: the API server has policies."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self._hook = free_port()
        self._url = f"https://{cluster.host_address}:{self._hook}"
        self._kubeconfig = operator_kubeconfig(cluster, folder)
        self._log = folder / "operator.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "edgewise.cli",
                    "operator",
                    f"--kubeconfig={self._kubeconfig}",
                    "--domains=tenancy",
                    f"--listen=127.0.0.1:{free_port()}",
                    f"--webhook-url={self._url}",
                    f"--webhook-port={self._hook}",
                ],
                stdout=log,
                stderr=log,
                env=os.environ,
            )

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._process = None


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with temporary_cluster("slices", nodes=3) as made:
        prepare(made)
        asyncio.run(allow(made))
        yield made


@pytest.fixture(scope="module")
def operator(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    made = Operator(cluster, tmp_path_factory.mktemp("slices"))
    made.start()
    try:
        yield made
    finally:
        made.stop()


class Yard:
    """Two tenants, and the node that one of them wants for itself."""

    def __init__(
        self, admin: Client, owner: Client, operator: Operator, token: str, node: str
    ) -> None:
        self.admin, self.owner, self.operator, self.node = admin, owner, operator, node
        self.acme, self.rival = f"acme-{token}", f"rival-{token}"

    @property
    def selector(self) -> list[NodeTerm]:
        return [NodeTerm(match_labels={HOST: self.node})]

    def template(self, script: str, name: str, **spec: Any) -> dict[str, Any]:
        container = {"name": "main", "image": PYTHON_IMAGE, "command": ["sh", "-c", script]}
        return {
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeSelector": {HOST: self.node}, "containers": [container], **spec},
        }

    async def pod(self, namespace: str, name: str, script: str = POLITE, **spec: Any) -> str:
        document = {"apiVersion": "v1", "kind": "Pod", **self.template(script, name, **spec)}
        await self.create(self.admin, namespace, document)
        await self.runs(namespace, name)
        return (await self.admin.get(Pod, name, namespace)).metadata.uid

    async def create(self, client: Client, namespace: str, document: dict[str, Any]) -> None:
        """As soon as Kubernetes has made the account that pods run as."""

        async def made() -> None:
            path = Pod.KIND.path(namespace)
            await client.request("POST", path, body=msgspec.json.encode(document))

        await eventually(made, within=WITHIN, not_yet=(Forbidden,))

    async def runs(self, namespace: str, name: str) -> Pod:
        async def so() -> None:
            found = await self.admin.get(Pod, name, namespace)
            assert found.ready, found.status

        await eventually(so, within=WITHIN)
        return await self.admin.get(Pod, name, namespace)

    async def there(self, namespace: str) -> list[Pod]:
        """Pods of a namespace on the node."""
        found = await self.admin.list(Pod, namespace, fields=f"spec.nodeName={self.node}")
        return found.items

    async def look(self) -> tuple[str, list[str]]:
        found = await self.admin.get(Node, self.node)
        mine = [each.key for each in found.spec.taints if each.key.startswith(SLICE)]
        return found.metadata.labels.get(SLICE, ""), mine


@pytest.fixture
async def yard(cluster: LocalCluster, operator: Operator) -> AsyncIterator[Yard]:
    token = secrets.token_hex(3)
    async with (
        as_user(cluster.kubeconfig) as admin,
        as_user(cluster.kubeconfig, f"owner-{token}") as owner,
    ):
        nodes = sorted(each.metadata.name for each in (await admin.list(Node)).items)
        made = Yard(admin, owner, operator, token, nodes[1])
        for name, who in ((made.acme, f"owner-{token}"), (made.rival, "rita")):
            await admin.create(Tenant.named(name, spec=TenantSpec(owners=[user(who)])))
            await established(admin, Tenant, name)
        yield made
        for name in (made.acme, made.rival):
            with contextlib.suppress(NotFound):
                await admin.patch(Tenant, name, body={"spec": {"enabled": False}})
                await admin.delete(Tenant, name)


async def test_a_slice_is_emptied_used_and_returned(yard: Yard) -> None:
    admin = yard.admin
    own = await yard.pod(yard.acme, "own")
    system = await yard.pod("default", f"system-{yard.acme}")
    await yard.pod(yard.rival, "deaf", DEAF, terminationGracePeriodSeconds=600)
    await yard.pod(yard.rival, "kept")
    everywhere = yard.template(POLITE, "daemon")
    del everywhere["spec"]["nodeSelector"], everywhere["metadata"]["name"]
    spec = {"selector": {"matchLabels": {"app": "daemon"}}, "template": everywhere}
    await admin.create(DaemonSet.named("daemon", yard.rival, spec=spec))
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    await admin.create(PodDisruptionBudget.named("kept", yard.rival, spec=budget))

    async def settled() -> None:
        assert len([each for each in await yard.there(yard.rival) if each.ready]) == 3
        path = f"{PodDisruptionBudget.KIND.path(yard.rival, 'kept')}"
        found = json.loads(await admin.request("GET", path))
        assert found["status"]["currentHealthy"] == 1

    await eventually(settled, within=WITHIN, not_yet=(AssertionError, KeyError))

    # Taken: first reserved, and everybody stays.
    claim = SliceClaimSpec(mode="Manual", node_count=1, selector=yard.selector)
    await yard.owner.create(SliceClaim.named("mine", yard.acme, spec=claim))
    name = f"slice-{yard.acme}"
    ref = ClaimRef(namespace=yard.acme, name="mine")
    wanted = SliceSpec(node_count=1, selector=yard.selector, claim_ref=ref, grace_seconds=GRACE)
    await admin.create(Slice.named(name, spec=wanted))

    async def bound() -> None:
        assert (await admin.get(SliceClaim, "mine", yard.acme)).status.state == "Bound"

    await eventually(bound, within=WITHIN)
    assert await yard.look() == (name, [])
    assert len(await yard.there(yard.rival)) == 3

    # Used: pods of others leave, those of the tenant and of nobody stay.
    inside = SubNamespaceSpec(workspace=Workspace(inherit=["RBAC"]), slice_claim="mine")
    began = time.monotonic()
    await yard.owner.create(SubNamespace.named("inside", yard.acme, spec=inside))
    await established(yard.owner, SubNamespace, "inside", yard.acme)
    emptied = time.monotonic() - began
    assert emptied <= GRACE + EMPTY_WITHIN
    assert await yard.there(yard.rival) == []
    assert (await yard.runs(yard.acme, "own")).metadata.uid == own
    assert (await yard.runs("default", f"system-{yard.acme}")).metadata.uid == system
    assert (await admin.get(Slice, name)).status.state == "Provisioned"

    # Its pods run there, without a word about it; others' do not.
    child = child_name(yard.acme, "inside")
    document = {"apiVersion": "v1", "kind": "Pod", **yard.template(POLITE, "guest")}
    del document["spec"]["nodeSelector"]
    await yard.create(yard.owner, child, document)
    assert (await yard.runs(child, "guest")).node_name == yard.node

    yard.operator.stop()
    await _pods_start_without_an_operator(yard, child, name)
    yard.operator.start()

    # Returned: everybody may come again.
    await yard.owner.delete(SubNamespace, "inside", yard.acme)
    await yard.owner.delete(SliceClaim, "mine", yard.acme)
    await admin.delete(Slice, name)

    async def ended() -> None:
        assert [each for each in await yard.there(child) if not each.metadata.deleting] == []

    await eventually(ended, within=WITHIN)

    async def gone() -> None:
        assert await yard.there(child) == []

    await eventually(gone, within=WITHIN, every=0.1)
    over = time.monotonic()

    async def shared() -> None:
        assert await yard.look() == ("", [])

    await eventually(shared, within=WITHIN, every=0.1)
    back = time.monotonic() - over
    assert back <= SHARED_WITHIN

    async def daemon() -> None:
        assert [each.ready for each in await yard.there(yard.rival)] == [True]

    await eventually(daemon, within=WITHIN)
    assert (await yard.runs(yard.acme, "own")).metadata.uid == own
    await admin.delete(Pod, f"system-{yard.acme}", "default", grace_seconds=0)
    figures = {"grace_s": GRACE, "empty_s": round(emptied, 1), "shared_s": round(back, 1)}
    _log.info("slice: %s", json.dumps(figures))


async def _pods_start_without_an_operator(yard: Yard, child: str, name: str) -> None:
    hooks = await yard.admin.get(MutatingWebhookConfiguration, WEBHOOKS)
    assert PODS_OF_SLICES in [each.name for each in hooks.webhooks], "there is nobody to do without"
    document = {"apiVersion": "v1", "kind": "Pod", **yard.template(POLITE, "alone")}
    del document["spec"]["nodeSelector"]
    await yard.create(yard.owner, child, document)
    assert (await yard.runs(child, "alone")).node_name == yard.node

    async def sent(**spec: Any) -> dict[str, Any]:
        metadata = {"name": f"p-{secrets.token_hex(3)}"}
        written = {**document, "metadata": metadata, "spec": {**document["spec"], **spec}}
        path, body = Pod.KIND.path(child), msgspec.json.encode(written)
        answer = await yard.owner.request("POST", path, body=body, params={"dryRun": "All"})
        made: dict[str, Any] = json.loads(answer)["spec"]
        return made

    mine = {"key": SLICE, "operator": "Equal", "value": name, "effect": "NoSchedule"}
    late = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    for asked in (
        {"nodeSelector": {"disk": "ssd"}},
        {"nodeSelector": {SLICE: "another"}},
        {"nodeSelector": {SLICE: name}, "tolerations": [mine]},
        {"tolerations": [late]},
    ):
        made = await sent(**asked)
        assert made["nodeSelector"] == {**asked.get("nodeSelector", {}), SLICE: name}  # type: ignore[dict-item]
        assert made["tolerations"].count(mine) == 1, made["tolerations"]
        assert all(each in made["tolerations"] for each in asked.get("tolerations", ()))
    for wrong in ({**mine, "value": "another"}, {"key": SLICE, "operator": "Exists"}):
        with pytest.raises(Forbidden, match=r"spec\.tolerations"):
            await sent(tolerations=[wrong])
