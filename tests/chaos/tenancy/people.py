"""Somebody of a tenant, with a seed: asks for namespaces, changes and ends them, runs pods."""

from __future__ import annotations

import contextlib
from random import Random

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
from edgewise.kube.errors import ApiError
from edgewise.kube.kinds.core import Pod
from edgewise.tenancy.names import child_name

_POD = {"containers": [{"name": "main", "image": "none"}]}
_NAMES = ("a", "b", "c")


class Somebody:
    """What the API server refuses is refused; the next idea comes."""

    def __init__(self, seed: int, root: str, client: Client) -> None:
        self.seed = seed
        self.root = root
        self._client = client
        self._chance = Random(seed)

    async def begin(self) -> None:
        claims = {"all": Share(resources={"pods": 12})}
        spec = TenantResourceQuotaSpec(claims=claims)
        await self._client.create(TenantResourceQuota.named(self.root, spec=spec))
        owner = Subject(kind="User", name="alice")
        await self._client.create(Tenant.named(self.root, spec=TenantSpec(owners=[owner])))

    async def act(self) -> None:
        with contextlib.suppress(ApiError):
            match self._chance.randrange(14):
                case 0 | 1 | 2 | 3:
                    await self._ask()
                case 4 | 5:
                    much = {"pods": self._chance.randrange(6)}
                    name, where = self._some()
                    body = {"spec": {"resources": much}}
                    await self._client.patch(SubNamespace, name, where, body=body)
                case 6:
                    name, where = self._some()
                    body = {"spec": {"deletion": "Cascade"}}
                    await self._client.patch(SubNamespace, name, where, body=body)
                    await self._client.delete(SubNamespace, name, where)
                case 7:
                    body = {
                        "spec": {
                            "claims": {"all": {"resources": {"pods": self._chance.choice((6, 12))}}}
                        }
                    }
                    await self._client.patch(TenantResourceQuota, self.root, body=body)
                case 8:
                    enabled = self._chance.random() < 0.7
                    body = {"spec": {"enabled": enabled}}
                    await self._client.patch(Tenant, self.root, body=body)
                case 9:
                    await self._end_pods()
                case _:
                    name = f"p{self._chance.randrange(10**9)}"
                    where = self._chance.choice(self._places())
                    await self._client.create(Pod.named(name, where, spec=_POD))

    def _places(self) -> list[str]:
        """The core namespace, its children, and theirs."""
        first = [child_name(self.root, name) for name in _NAMES]
        return [self.root, *first, child_name(first[0], "a")]

    def _some(self) -> tuple[str, str]:
        where = self._chance.choice((self.root, self.root, child_name(self.root, "a")))
        return self._chance.choice(_NAMES), where

    async def _ask(self) -> None:
        name, where = self._some()
        owner = Subject(kind="User", name="sam")
        sub = Subtenant(owner=owner) if self._chance.random() < 0.3 else None
        space = None if sub else Workspace(inherit=["RBAC"])
        much = {"pods": self._chance.randrange(5)}
        spec = SubNamespaceSpec(workspace=space, subtenant=sub, resources=much)
        await self._client.create(SubNamespace.named(name, where, spec=spec))

    async def _end_pods(self) -> None:
        where = self._chance.choice(self._places())
        for each in (await self._client.list(Pod, where)).items:
            await self._client.delete(Pod, each.metadata.name, where, grace_seconds=0)
