"""Nodes that a test makes, pods on them, and a tenant that wants the nodes for itself.

There is no kubelet, scheduler or controller manager: the field binds pods, ends them when their
time is over, and counts quota. Everything else is the API server's and the operator's.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from edgewise.api.tenancy import (
    SLICE,
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
from edgewise.api.tenancy_slices import (
    ClaimRef,
    NodeTerm,
    Slice,
    SliceClaim,
    SliceClaimSpec,
    SliceSpec,
)
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import ApiError, NotFound
from edgewise.kube.kinds.core import Namespace, Node, Pod, ResourceQuota
from edgewise.tenancy.names import KEPT, child_name
from edgewise.testing.eventually import eventually
from tests.integration.conftest import ApiServer

POOL = "example.com/pool"
WITHIN = 60.0
MUCH = {"cpu": "100", "memory": "100Gi", "pods": "1000"}


def pod_document(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "none"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": containers, **spec},
    }


class Field:
    def __init__(self, server: ApiServer, admin: Client, stack: contextlib.AsyncExitStack) -> None:
        self.server, self.admin, self._stack = server, admin, stack
        self.pool = secrets.token_hex(4)
        self.acme, self.rival = f"acme-{self.pool}", f"rival-{self.pool}"
        self.stubborn: set[str] = set()
        self._people: dict[str, Client] = {}

    # People and tenants ---------------------------------------------------------------

    async def person(self, name: str, *groups: str) -> Client:
        if name not in self._people:
            headers = [("Impersonate-User", name), ("Impersonate-Group", "system:authenticated")]
            headers += [("Impersonate-Group", each) for each in groups]
            access = msgspec.structs.replace(
                load_access(self.server.kubeconfig), impersonation=tuple(headers)
            )
            self._people[name] = await self._stack.enter_async_context(Client(access))
        return self._people[name]

    async def owner(self) -> Client:
        return await self.person(f"owner-of-{self.acme}")

    async def tenant(self, name: str, quota: dict[str, Any] | None = None) -> None:
        if quota:
            spec = TenantResourceQuotaSpec(claims={"all": Share(resources=quota)})
            await self.admin.create(TenantResourceQuota.named(name, spec=spec))
        owners = [Subject(kind="User", name=f"owner-of-{name}")]
        await self.admin.create(Tenant.named(name, spec=TenantSpec(owners=owners)))

        async def established() -> None:
            if quota:
                await self.count(name)
            found = await self.admin.get(Tenant, name)
            assert found.status.state == "Established", found.status

        await eventually(established, within=WITHIN, not_yet=(NotFound,))

    async def tenants(self, quota: dict[str, Any] | None = None) -> None:
        await self.tenant(self.acme, MUCH if quota is None else quota)
        await self.tenant(self.rival)

    async def count(self, namespace: str, used: dict[str, str] | None = None) -> None:
        """What the quota controller does."""
        found = await self.admin.get(ResourceQuota, KEPT, namespace)
        counted = used or {**dict.fromkeys(found.spec.hard, "0"), **found.status.used}
        status = {"hard": found.spec.hard, "used": counted}
        await self.admin.patch(
            ResourceQuota, KEPT, namespace, body={"status": status}, subresource="status"
        )

    # Nodes and pods -------------------------------------------------------------------

    async def node(self, name: str, **allocatable: str) -> str:
        full = f"{name}-{self.pool}"
        made = Node.named(full)
        made.metadata.labels = {POOL: self.pool}
        await self.admin.create(made)
        status = {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20", **allocatable},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await self.admin.patch(Node, full, body={"status": status}, subresource="status")
        # The API server taints what is new; nobody else is here to say that it is ready.
        await self.admin.patch(Node, full, body={"spec": {"taints": []}})
        return full

    async def look(self, node: str) -> tuple[str, list[str]]:
        found = await self.admin.get(Node, node)
        taints = [each.key.rpartition("/")[2] for each in found.spec.taints]
        return found.metadata.labels.get(SLICE, ""), taints

    async def pod(self, namespace: str, node: str, name: str = "", **spec: Any) -> str:
        """A pod that the scheduler has put on a node, and that runs there."""
        called = name or f"p-{secrets.token_hex(3)}"
        body = msgspec.json.encode(pod_document(called, **spec))
        await self.admin.request("POST", Pod.KIND.path(namespace), body=body)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": called},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"{Pod.KIND.path(namespace, called)}/binding"
        await self.admin.request("POST", path, body=msgspec.json.encode(binding))
        # A budget protects only what runs.
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.admin.patch(
            Pod, called, namespace, body={"status": status}, subresource="status"
        )
        return called

    async def has_pod(self, namespace: str, name: str) -> bool:
        try:
            return not (await self.admin.get(Pod, name, namespace)).metadata.deleting
        except NotFound:
            return False

    async def kubelet(self) -> None:
        """Ends pods that were asked to; stubborn ones only when their time is over."""
        while True:
            with contextlib.suppress(ApiError):
                for pod in (await self.admin.list(Pod)).items:
                    if pod.metadata.deletion_timestamp is None:
                        continue
                    ends = datetime.fromisoformat(pod.metadata.deletion_timestamp)
                    if pod.metadata.name in self.stubborn and ends > datetime.now(UTC):
                        continue
                    with contextlib.suppress(NotFound):
                        await self.admin.delete(
                            Pod, pod.metadata.name, pod.metadata.namespace, grace_seconds=0
                        )
            await asyncio.sleep(0.1)

    # Slices ---------------------------------------------------------------------------

    @property
    def selector(self) -> list[NodeTerm]:
        return [NodeTerm(match_labels={POOL: self.pool})]

    def claim_of(self, name: str, **spec: Any) -> SliceClaim:
        spec.setdefault("selector", self.selector)
        spec.setdefault("node_count", 1)
        return SliceClaim.named(name, self.acme, spec=SliceClaimSpec(**spec))

    async def claim(self, name: str, **spec: Any) -> SliceClaim:
        return await (await self.owner()).create(self.claim_of(name, **spec))

    async def slice(self, name: str, *, claim: str = "", **spec: Any) -> str:
        full = f"{name}-{self.pool}"
        spec.setdefault("selector", self.selector)
        spec.setdefault("node_count", 1)
        ref = ClaimRef(namespace=self.acme, name=claim) if claim else None
        await self.admin.create(Slice.named(full, spec=SliceSpec(claim_ref=ref, **spec)))
        return full

    async def use(self, claim: str, name: str = "inside", **spec: Any) -> str:
        made = SubNamespaceSpec(workspace=Workspace(inherit=["RBAC"]), slice_claim=claim, **spec)
        await (await self.owner()).create(SubNamespace.named(name, self.acme, spec=made))
        return child_name(self.acme, name)

    async def claim_is(self, name: str, state: str, says: str = "") -> SliceClaim:
        async def so() -> None:
            found = await self.admin.get(SliceClaim, name, self.acme)
            assert found.status.state == state, found.status
            assert says in found.status.conditions[0].message, found.status

        await eventually(so, within=WITHIN, not_yet=(AssertionError, IndexError))
        return await self.admin.get(SliceClaim, name, self.acme)

    async def slice_is(self, name: str, state: str) -> Slice:
        async def so() -> None:
            found = await self.admin.get(Slice, name)
            assert found.status.state == state, found.status

        await eventually(so, within=WITHIN)
        return await self.admin.get(Slice, name)

    async def inside_is(self, state: str, name: str = "inside") -> SubNamespace:
        async def so() -> None:
            with contextlib.suppress(NotFound):
                # Quotas of namespaces that come are counted as soon as they are there.
                await self.count(child_name(self.acme, name))
            with contextlib.suppress(NotFound):
                await self.count(self.acme)
            found = await self.admin.get(SubNamespace, name, self.acme)
            assert found.status.state == state, found.status

        await eventually(so, within=WITHIN, every=0.3, not_yet=(AssertionError, ApiError))
        return await self.admin.get(SubNamespace, name, self.acme)

    async def node_is(self, node: str, label: str, *taints: str) -> None:
        async def so() -> None:
            assert await self.look(node) == (label, [*taints])

        await eventually(so, within=WITHIN)

    async def end_namespace(self, name: str) -> None:
        """What the namespace controller does: first the pods, then the namespace."""
        for pod in (await self.admin.list(Pod, name)).items:
            await self.admin.delete(Pod, pod.metadata.name, name)
        found = await self.admin.get(Namespace, name)
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "resourceVersion": found.metadata.resource_version},
            "spec": {"finalizers": []},
        }
        await self.admin.request(
            "PUT", f"{Namespace.KIND.path(None, name)}/finalize", body=msgspec.json.encode(body)
        )


@contextlib.asynccontextmanager
async def playing(server: ApiServer) -> AsyncIterator[Field]:
    async with contextlib.AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Client(load_access(server.kubeconfig)))
        field = Field(server, admin, stack)
        kubelet = asyncio.create_task(field.kubelet())
        try:
            yield field
        finally:
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)
            await _clear(field)


async def _clear(field: Field) -> None:
    """Nothing of this test is left to the next one, and no node."""
    for name in (field.acme, field.rival):
        with contextlib.suppress(NotFound):
            for kind in (SliceClaim, SubNamespace):
                for each in (await field.admin.list(kind, name)).items:
                    await field.admin.delete(kind, each.metadata.name, name)
    for found in (await field.admin.list(Slice)).items:
        if found.metadata.name.endswith(field.pool):
            await field.admin.delete(Slice, found.metadata.name)
    for node in (await field.admin.list(Node, labels=f"{POOL}={field.pool}")).items:
        await field.admin.delete(Node, node.metadata.name)
    for name in (field.acme, field.rival):
        for kind in (TenantResourceQuota, Tenant):
            with contextlib.suppress(NotFound):
                if kind is Tenant:
                    await field.admin.patch(Tenant, name, body={"spec": {"enabled": False}})
                await field.admin.delete(kind, name)
