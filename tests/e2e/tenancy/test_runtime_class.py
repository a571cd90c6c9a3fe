"""Pods of tenants run in the class of the cluster, whoever makes them and whatever they ask for."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from edgewise.api.sessions import Session, SessionTemplate
from edgewise.api.tenancy import SLICE
from edgewise.domain import install_domains
from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError
from edgewise.kube.kinds.apps import Deployment, Job
from edgewise.kube.kinds.core import Namespace, Pod, ResourceQuota
from edgewise.kube.kinds.rbac import ClusterRole
from edgewise.sessions.domain import SESSIONS
from edgewise.tenancy import parameters
from edgewise.tenancy.names import KEPT
from edgewise.tenancy.quota.quantities import parse
from edgewise.testing.eventually import eventually
from tests.e2e.tenancy.escape.workloads import pod
from tests.e2e.tenancy.rig import RBAC_WORKSPACE, Rig, rig
from tests.e2e.tenancy.scene import OVERHEAD, RUNTIME, running_operator

__all__ = ["rig"]

CONTAINERS = [{"name": "main", "image": "none", "imagePullPolicy": "Always"}]


async def pods_of(client: Client, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(await client.request("GET", Pod.KIND.path(namespace)))[
        "items"
    ]
    return found


async def one_in_its_class(rig: Rig, begins: str, namespace: str = "") -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    async def there() -> None:
        found[:] = [
            each
            for each in await pods_of(rig.owner, namespace or rig.name)
            if each["metadata"]["name"].startswith(begins)
        ]
        assert len(found) == 1, found

    await eventually(there, within=60)
    assert found[0]["spec"]["runtimeClassName"] == RUNTIME
    assert found[0]["spec"]["overhead"] == OVERHEAD
    return found[0]


@pytest.mark.parametrize("asked", [None, "other", RUNTIME])
async def test_the_class_of_the_cluster_takes_the_place_of_any_other(
    rig: Rig, asked: str | None
) -> None:
    await rig.tenant()
    await rig.pod(rig.name, "p", runtimeClassName=asked)
    await one_in_its_class(rig, "p")


async def test_pods_of_controllers_get_it_too(rig: Rig) -> None:
    await rig.tenant()
    labels = {"app": "web"}
    spec: dict[str, Any] = {"containers": CONTAINERS, "runtimeClassName": "other"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    await rig.owner.create(
        Deployment.named(
            "web", rig.name, spec={"selector": {"matchLabels": labels}, "template": template}
        )
    )
    once = {"template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}}
    await rig.owner.create(Job.named("once", rig.name, spec=once))
    await one_in_its_class(rig, "web-")
    await one_in_its_class(rig, "once-")


async def test_an_ephemeral_container_runs_in_the_class_of_its_pod(rig: Rig) -> None:
    await rig.tenant()
    await rig.pod(rig.name, "p")
    debug = {"name": "debug", "image": "none", "imagePullPolicy": "Always"}
    body = {"spec": {"ephemeralContainers": [debug]}}
    await rig.owner.patch(Pod, "p", rig.name, body=body, subresource="ephemeralcontainers")
    found = await one_in_its_class(rig, "p")
    assert [each["name"] for each in found["spec"]["ephemeralContainers"]] == ["debug"]


@contextlib.asynccontextmanager
async def sessions_run(rig: Rig, folder: Any) -> AsyncIterator[None]:
    """An operator of sessions, beside that of tenancy."""
    await install_domains(rig.admin, [SESSIONS], SESSIONS.kinds)
    namespace = f"sessions-{rig.name}"
    await rig.admin.create(Namespace.named(namespace))
    with running_operator(rig.cluster, folder, domain="sessions", namespace=namespace):
        yield
    await rig.admin.delete(Namespace, namespace)


async def test_pods_of_sessions_get_it_too(rig: Rig, tmp_path: Any) -> None:
    await rig.tenant()
    async with sessions_run(rig, tmp_path):
        server = {"name": "server", "template": {"spec": {"containers": CONTAINERS}}}
        template = {"podTemplates": [{**server, "maxClients": 1}]}
        metadata = {"name": "room", "namespace": rig.name}
        await rig.owner.create(
            msgspec.convert({"metadata": metadata, "spec": template}, SessionTemplate)
        )
        session = {"templateRef": {"name": "room"}, "clients": {"ann": {"connected": True}}}
        await rig.owner.create(msgspec.convert({"metadata": metadata, "spec": session}, Session))
        await one_in_its_class(rig, "")
        await rig.owner.delete(Session, "room", rig.name)
        await rig.owner.delete(SessionTemplate, "room", rig.name)

        async def gone() -> None:
            assert not (await rig.owner.list(SessionTemplate, rig.name)).items

        await eventually(gone, within=60)


async def test_overhead_is_counted_in_quota(rig: Rig) -> None:
    await rig.quota(memory="1Gi", pods=5)
    await rig.tenant()

    async def admitted() -> None:
        await rig.pod(rig.name, "p", runtimeClassName="other")

    await eventually(admitted, within=60, not_yet=(ApiError,))

    async def counted() -> None:
        used = (await rig.admin.get(ResourceQuota, KEPT, rig.name)).status.used
        asked = (await pods_of(rig.owner, rig.name))[0]["spec"]["containers"][0]["resources"]
        whole = parse(asked["requests"]["memory"]) + parse(OVERHEAD["memory"])
        assert parse(used["memory"]) == whole, used

    await eventually(counted, within=30)


async def test_in_a_slice_a_tenant_chooses_for_itself(rig: Rig) -> None:
    await rig.tenant()
    child = await rig.child("alone", workspace=RBAC_WORKSPACE)
    # As the operator labels the namespace of a SubNamespace with a slice.
    labels = {"metadata": {"labels": {SLICE: "any"}}}

    async def free(asked: str | None) -> None:
        # The operator takes away what it did not set, a moment later.
        await rig.admin.patch(Namespace, child, body=labels)
        document = pod(runtimeClassName=asked, nodeSelector={SLICE: "any"})
        answer = await rig.owner.request(
            "POST",
            Pod.KIND.path(child),
            body=msgspec.json.encode(document),
            params={"dryRun": "All"},
        )
        assert json.loads(answer)["spec"].get("runtimeClassName") == asked

    for asked in ("other", None):
        await eventually(lambda asked=asked: free(asked), within=60, not_yet=(ApiError,))  # type: ignore[misc]


async def test_without_a_class_nothing_is_set(rig: Rig) -> None:
    await rig.tenant()

    async def told(name: str) -> None:
        annotations = parameters.annotations_of({"runtimeClass": name})
        await rig.admin.patch(
            ClusterRole, parameters.NAME, body={"metadata": {"annotations": annotations}}
        )

    async def runs_in(wanted: str) -> None:
        answer = await rig.owner.request(
            "POST",
            Pod.KIND.path(rig.name),
            body=msgspec.json.encode(pod(runtimeClassName="other")),
            params={"dryRun": "All"},
        )
        assert json.loads(answer)["spec"]["runtimeClassName"] == wanted

    await told("")
    try:
        await eventually(lambda: runs_in("other"), within=30)
    finally:
        await told(RUNTIME)
    # Until the operator has marked the namespace, no pod comes in with another one.
    await eventually(lambda: runs_in(RUNTIME), within=30, not_yet=(AssertionError, ApiError))
