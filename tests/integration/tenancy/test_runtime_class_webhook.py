"""An API server without MutatingAdmissionPolicies: the operator's webhook sets the class."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from edgewise.api.tenancy import SLICE, TENANT_UID
from edgewise.domain import all_kinds, install_domains, mutates_by_policy
from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError, NotFound
from edgewise.kube.kinds.admission import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from edgewise.kube.kinds.core import Namespace, Pod
from edgewise.kube.kinds.rbac import ClusterRole
from edgewise.operator import WEBHOOKS, Options, run_operator
from edgewise.runtime.manager import Listen
from edgewise.runtime.webhooks.serving import Target
from edgewise.tenancy import parameters
from edgewise.tenancy.domain import TENANCY
from edgewise.tenancy.runtime_class import BY_WEBHOOK
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


async def set_class(client: Client, name: str) -> None:
    annotations = parameters.annotations_of({"runtimeClass": name})
    body = {"metadata": {"annotations": annotations}}
    await client.patch(ClusterRole, parameters.NAME, body=body)


@contextlib.asynccontextmanager
async def operator(client: Client, namespace: str) -> AsyncIterator[None]:
    hook = free_port()
    options = Options(
        namespace=namespace,
        listen=Listen(port=free_port()),
        webhooks=Target(url=f"https://127.0.0.1:{hook}"),
        webhook_port=hook,
        flags={BY_WEBHOOK.name: True},
    )
    running = asyncio.create_task(run_operator(client, options, [TENANCY]))
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        for kind in (ValidatingWebhookConfiguration, MutatingWebhookConfiguration):
            with contextlib.suppress(NotFound):
                await client.delete(kind, WEBHOOKS)


async def test_the_webhook_sets_the_class_and_nothing_else_does(
    client: Client, namespace: str
) -> None:
    await install_domains(client, [TENANCY], all_kinds([TENANCY]))
    assert not await mutates_by_policy(client), "this test is for API servers without it"
    mark = secrets.token_hex(3)
    ours, other = f"ours-{mark}", f"other-{mark}"
    for name, overhead in ((ours, "8Mi"), (other, "16Mi")):
        body: dict[str, Any] = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": name},
            "handler": "runc",
            "overhead": {"podFixed": {"memory": overhead}},
        }
        await client.request("POST", CLASSES, body=msgspec.json.encode(body))
    plain, sliced, tenant = (f"{kind}-{mark}" for kind in ("plain", "sliced", "tenant"))
    for name, labels in (
        (plain, {}),
        (sliced, {TENANT_UID: "a", SLICE: "s"}),
        (tenant, {TENANT_UID: "a"}),
    ):
        made = Namespace.named(name)
        made.metadata.labels = labels
        await client.create(made)

    async def result(where: str) -> tuple[Any, Any]:
        spec = {
            "containers": [{"name": "main", "image": "none"}],
            "runtimeClassName": other,
            "nodeSelector": {SLICE: "s"},
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        body = msgspec.json.encode(pod)
        path = Pod.KIND.path(where)
        answer = json.loads(await client.request("POST", path, body=body, params={"dryRun": "All"}))
        return answer["spec"]["runtimeClassName"], answer["spec"]["overhead"]["memory"]

    await set_class(client, ours)
    try:

        async def refused() -> None:
            try:
                said = str(await result(tenant))
            except ApiError as error:
                said = str(error)
            assert f"pods of tenants run in {ours}" in said, said

        await eventually(refused, within=30)
        async with operator(client, namespace):

            async def is_set() -> None:
                assert await result(tenant) == (ours, "8Mi")

            await eventually(is_set, within=60, not_yet=(ApiError,))
            assert await result(plain) == (other, "16Mi")
            assert await result(sliced) == (other, "16Mi")
    finally:
        await set_class(client, "")
