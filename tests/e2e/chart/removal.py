"""Looks at a cluster from which the chart is removed, also while no CRD of ours is there."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewise.api.sessions import ClientStatus, Session, SessionTemplate
from edgewise.domain import all_kinds
from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod, Secret, Service
from edgewise.kube.kinds.extensions import CustomResourceDefinition
from edgewise.operator import DOMAINS
from edgewise.testing.eventually import eventually
from tests.e2e.chart.conftest import SYSTEM
from tests.e2e.sessions import workloads
from tests.e2e.sessions.workloads import NAMESPACE

RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


async def seated(client: Client, name: str, pod_template: dict[str, Any]) -> ClientStatus:
    """A session with ann in it, on a template with a pool."""

    async def made() -> None:
        try:
            await client.apply(workloads.template(name, pod_template, reuse="Template"))
            await client.apply(workloads.session(name, name))
        except KubeError as error:  # the CRDs and webhooks are not all there yet
            raise AssertionError(str(error)) from error
        body = {"spec": {"clients": {"ann": {"connected": True}}}}
        await client.patch(Session, name, NAMESPACE, body=body)

    await eventually(made, within=60, every=0.2)
    return await ready(client, name)


async def ready(client: Client, name: str, host: str = "") -> ClientStatus:
    """ann, once she is ready at this host."""
    found = ClientStatus()

    async def look() -> None:
        nonlocal found
        status = (await client.get(Session, name, NAMESPACE)).status
        found = status.clients.get("ann", found)
        assert found.ready, found
        assert host in found.endpoints["server"]["http"], found.endpoints

    await eventually(look, within=60, every=0.1)
    return found


async def left(client: Client) -> set[str]:
    """What is there of us, anywhere."""
    found = set()
    for path in (f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings", HOOKS):
        listing = msgspec.json.decode(await client.request("GET", path))
        names = [each["metadata"]["name"] for each in listing["items"]]
        kind = path.rpartition("/")[2]
        # The local cluster's own have a colon.
        found |= {f"{kind} {name}" for name in names if name.partition("-")[0] == "edgewise"}
    for kind in (Pod, Lease, Secret, Service):
        for namespace in (SYSTEM, NAMESPACE):
            for each in (await client.list(kind, namespace)).items:
                found.add(f"{kind.KIND.plural} {each.key}")
    for crd in (await client.list(CustomResourceDefinition)).items:
        if crd.metadata.name.endswith("edgewise.dev"):
            found.add(f"crds {crd.metadata.name}")
    return found


async def nothing_left(client: Client) -> None:
    async def look() -> None:
        assert await left(client) == set()

    await eventually(look, within=60, every=0.2)


async def delete_what_was_kept(client: Client) -> None:
    """As the how-to says."""
    for kind in (Session, SessionTemplate):
        for each in (await client.list(kind)).items:
            await client.delete(kind, each.metadata.name, each.metadata.namespace)
    for kind in all_kinds(DOMAINS):
        await client.delete(CustomResourceDefinition, f"{kind.KIND.plural}.{kind.KIND.group}")
