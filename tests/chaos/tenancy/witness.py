"""Sees every revision of what tenancy writes, and says at which one a promise was broken.

All changes of a cluster have one order, the one of their resource versions. The witness watches
the kinds by themselves, and looks through them afterwards in that order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from edgewise.api.tenancy import (
    MANAGED,
    OWNER_UID,
    PARENT,
    TENANT_UID,
    SubNamespace,
    Tenant,
    TenantResourceQuota,
)
from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError, NotFound
from edgewise.kube.kinds.core import Namespace, Pod, ResourceQuota
from edgewise.kube.kinds.rbac import RoleBinding
from edgewise.kube.objects import Object
from edgewise.tenancy.names import KEPT
from edgewise.tenancy.quota.quantities import NANO, parse, texts, total
from edgewise.tenancy.quota.reading import account_of, ledger_of, total_of

KINDS: dict[type[Object], str] = {
    Namespace: TENANT_UID,
    ResourceQuota: f"{MANAGED}=true",
    RoleBinding: f"{MANAGED}=true",
    TenantResourceQuota: "",
    Pod: "",
}
PODS = "pods"
_LIVES = 3600


class Seen(msgspec.Struct, frozen=True):
    revision: int
    obj: Any
    deleted: bool


class Witness:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._seen: list[Seen] = []

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[Witness]:
        begun = [asyncio.Event() for _ in KINDS]
        watches = [
            asyncio.create_task(self._watch(kind, labels, event))
            for (kind, labels), event in zip(KINDS.items(), begun, strict=True)
        ]
        try:
            async with asyncio.timeout(30):
                for event in begun:
                    await event.wait()
            yield self
            failed = [each for each in watches if each.done()]
            assert not failed, f"the witness lost sight: {failed}"
        finally:
            for each in watches:
                each.cancel()
            await asyncio.wait(watches)

    async def _watch(self, kind: type[Object], labels: str, begun: asyncio.Event) -> None:
        listed = await self._client.list(kind, labels=labels)
        for obj in listed.items:
            self._seen.append(Seen(int(obj.metadata.resource_version), obj, deleted=False))
        begun.set()
        async for change in self._client.watch(
            kind,
            resource_version=listed.resource_version,
            labels=labels,
            timeout_seconds=_LIVES,
            idle_timeout=_LIVES,
        ):
            if change.type in ("ADDED", "MODIFIED", "DELETED"):
                obj: Any = change.object
                gone = change.type == "DELETED"
                self._seen.append(Seen(int(obj.metadata.resource_version), obj, gone))

    def broken(self, root: str) -> list[str]:
        """What was promised of a tree, and was not so, each with its revision."""
        return _Replay(root).run(sorted(self._seen, key=lambda each: each.revision))

    def pods_over(self, root: str) -> int:
        """The most pods above its total that a tree ever had."""
        replay = _Replay(root)
        replay.run(sorted(self._seen, key=lambda each: each.revision))
        return replay.over


class _Replay:
    def __init__(self, root: str) -> None:
        self._root = root
        self._parents: dict[str, str] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._quotas: dict[str, ResourceQuota] = {}
        self._pods: dict[str, set[str]] = {}
        self._total: int | None = None
        self._allowed = 0
        self._broken: list[str] = []
        self.over = 0

    def run(self, seen: list[Seen]) -> list[str]:
        for each in seen:
            found = self._take(each)
            self._broken += [f"at {each.revision}: {sentence}" for sentence in found]
        return self._broken

    def _take(self, seen: Seen) -> list[str]:
        obj, gone = seen.obj, seen.deleted
        match obj:
            case Namespace():
                return self._namespace(obj, gone)
            case ResourceQuota():
                if not self._mine(obj.metadata.namespace):
                    return []
                _keep(self._quotas, obj.metadata.namespace, None if gone else obj)
                return self._sums()
            case TenantResourceQuota() if obj.metadata.name == self._root:
                self._total = None if gone else total_of(obj, 0).get(PODS, 0) // NANO
                # When it falls, what was given before holds until it is taken back.
                self._allowed = max(self._allowed, self._total or 0)
            case RoleBinding():
                return self._access(obj) if not gone else []
            case Pod():
                self._pod(obj, gone)
        return []

    def _namespace(self, obj: Namespace, gone: bool) -> list[str]:
        name, labels = obj.metadata.name, obj.metadata.labels
        new = name not in self._namespaces
        self._parents[name] = labels.get(PARENT, "")
        _keep(self._namespaces, name, None if gone else obj)
        if not self._mine(name) or gone:
            return []
        found = []
        asked = labels.get(OWNER_UID)
        same = [
            each
            for each, other in self._namespaces.items()
            if asked and other.metadata.labels.get(OWNER_UID) == asked
        ]
        if len(same) > 1:
            found.append(f"one SubNamespace has several children: {same}")
        above = self._quotas.get(self._parents[name])
        named = above is not None and name in ledger_of(above)
        if new and asked and self._total is not None and not named:
            found.append(f"{name} was made, and no ledger names it")
        return found

    def _access(self, obj: RoleBinding) -> list[str]:
        namespace = obj.metadata.namespace
        if obj.metadata.name != KEPT or self._total is None or not self._mine(namespace):
            return []
        quota = self._quotas.get(namespace)
        people = len(obj.subjects) > 1
        if people and (quota is None or PODS not in quota.status.hard):
            return [f"people come into {namespace}, and its quota is not enforced"]
        return []

    def _pod(self, obj: Pod, gone: bool) -> None:
        pods = self._pods.setdefault(obj.metadata.namespace, set())
        if gone or obj.status.phase in ("Succeeded", "Failed"):
            pods.discard(obj.metadata.name)
        else:
            pods.add(obj.metadata.name)
        if self._total is not None:
            there = sum(len(each) for name, each in self._pods.items() if self._mine(name))
            self.over = max(self.over, there - self._allowed)

    def _sums(self) -> list[str]:
        if self._total is None:
            return []
        enforced = 0
        for name, quota in self._quotas.items():
            namespace = self._namespaces.get(name)
            if namespace is not None and namespace.metadata.deleting:
                # Nothing comes in any more; what is there is used.
                enforced += len(self._pods.get(name, ()))
            else:
                enforced += parse(quota.status.hard.get(PODS, "0")) // NANO
        if enforced > self._allowed:
            return [f"{enforced} pods are enforced together, and {self._allowed} is the total"]
        return []

    def _mine(self, namespace: str) -> bool:
        for _ in range(64):
            if namespace == self._root:
                return True
            namespace = self._parents.get(namespace, "")
            if not namespace:
                return False
        return False


def _keep(where: dict[str, Any], name: str, obj: Any) -> None:
    if obj is None:
        where.pop(name, None)
    else:
        where[name] = obj


# At rest -----------------------------------------------------------------------------------


async def at_rest(client: Client, root: str) -> None:
    """What must hold when everybody has done what there is to do; raises AssertionError."""
    tenant = await client.get(Tenant, root)
    assert tenant.status.state, "the tenant has no state yet"
    labelled = (await client.list(Namespace, labels=TENANT_UID)).items
    there = {each.metadata.name: each for each in labelled}
    tree = _tree(root, there)
    asked: dict[str, SubNamespace] = {}
    for name in tree:
        for source in (await client.list(SubNamespace, name)).items:
            assert source.status.state, f"{source.key} has no state yet"
            assert source.status.observed_generation == source.metadata.generation, source.key
            if source.status.child:
                asked[source.status.child] = source
    # Each namespace below is asked for, and what is said to be there is there.
    assert {*tree} - {root} == {*asked}, f"{[*tree]} are there, {[*asked]} are asked for"
    await _sums_at_rest(client, root, tree)


def _tree(root: str, there: dict[str, Namespace]) -> list[str]:
    found, pending = [], [root]
    while pending:
        name = pending.pop()
        if name in there:
            found.append(name)
        pending += [
            each for each, space in there.items() if space.metadata.labels.get(PARENT) == name
        ]
    return found


async def _sums_at_rest(client: Client, root: str, tree: list[str]) -> None:
    """hard(v) + Σ alloc(children) = alloc(v), from the core down."""
    try:
        quota = await client.get(TenantResourceQuota, root)
    except NotFound:
        return
    accounts = {name: account_of(await client.get(ResourceQuota, KEPT, name)) for name in tree}
    given = total_of(quota, 0)
    assert accounts[root].allocated(PODS) == given[PODS], (accounts[root], given)
    for account in accounts.values():
        assert account.enforced is not None
        assert account.enforced[PODS] == account.hard[PODS]
        assert {*account.ledger} <= {*tree}, f"{account.ledger} names what is gone"
        for child, entry in account.ledger.items():
            assert accounts[child].allocated(PODS) == entry[PODS], (account, accounts[child])
    held = texts(total([each.hard for each in accounts.values()], [PODS]))
    assert held == texts({PODS: given[PODS]}), f"all hold {held} of {given}"


NOT_YET = (KubeError, KeyError)
