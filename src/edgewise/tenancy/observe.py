"""Gathers one tree from the shared caches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from edgewise.api.tenancy import (
    OWNER_UID,
    PARENT,
    SLICE,
    TENANT,
    Subject,
    SubNamespace,
    Tenant,
    TenantResourceQuota,
)
from edgewise.api.tenancy_slices import SliceClaim
from edgewise.kube.kinds.core import LimitRange, Namespace, ResourceQuota
from edgewise.kube.kinds.networking import NetworkPolicy
from edgewise.kube.kinds.rbac import RoleBinding
from edgewise.kube.objects import Key
from edgewise.runtime.watches import CacheView
from edgewise.tenancy.names import KEPT, child_of
from edgewise.tenancy.quota.reading import ledger_of
from edgewise.tenancy.surroundings import Surroundings
from edgewise.tenancy.tree.seen import Branch, Tree

# Further than any tree goes: labels that an administrator broke must not lead in circles.
DEEPEST = 64


def by_parent(namespace: Namespace) -> str | None:
    return namespace.metadata.labels.get(PARENT)


def by_tenant(namespace: Namespace) -> str | None:
    return namespace.metadata.labels.get(TENANT)


def by_parent_namespace(tenant: Tenant) -> str | None:
    return tenant.spec.parent.namespace if tenant.spec.parent is not None else None


def root_of(namespace: str, cache: CacheView) -> str:
    """The topmost namespace above this one that is known: where its tree begins, or where the
    tree is torn because something above is gone."""
    for _ in range(DEEPEST):
        found = cache[Namespace].find(namespace)
        above = found.metadata.labels.get(PARENT) if found is not None else None
        if not above:
            return namespace
        namespace = above
    return namespace


def observe(
    tenant: Tenant,
    cache: CacheView,
    around: Surroundings,
    *,
    foreign: Iterable[str] = (),
    refused: str = "",
) -> Tree:
    branches: dict[str, Branch] = {}
    orphans: list[Namespace] = []
    lost: list[Tenant] = []
    pending = [core_branch(tenant, cache, foreign)]
    while pending:
        branch = pending.pop(0)
        branches[branch.name] = branch
        asked: set[str] = set()
        if branch.mine:
            for source in sorted(cache[SubNamespace].all(branch.name), key=_age):
                if source.metadata.deleting:
                    continue
                child = child_branch(
                    source, branch, root=tenant, cache=cache, around=around, foreign=foreign
                )
                if child.name not in branches:
                    asked.add(source.metadata.uid)
                    pending.append(child)
        orphans += [
            each
            for each in cache[Namespace].by(by_parent, branch.name)
            if each.metadata.labels.get(OWNER_UID) not in asked
        ]
        lost += [
            each
            for each in cache[Tenant].by(by_parent_namespace, branch.name)
            if each.spec.parent is not None and each.spec.parent.uid not in asked
        ]
    return Tree(
        tenant=tenant,
        branches=branches,
        around=around,
        quota=cache[TenantResourceQuota].find(tenant.metadata.name),
        unheeded=tuple(_unheeded(branches.values(), cache)),
        orphans=tuple(orphans),
        lost_tenants=tuple(lost),
        refused=refused,
    )


def _unheeded(branches: Iterable[Branch], cache: CacheView) -> Iterator[TenantResourceQuota]:
    for branch in branches:
        if branch.source is not None and branch.source.spec.subtenant is not None:
            found = cache[TenantResourceQuota].find(branch.name)
            if found is not None:
                yield found


def core_branch(tenant: Tenant, cache: CacheView, foreign: Iterable[str]) -> Branch:
    return _branch(
        tenant.metadata.name,
        cache,
        path=(),
        tenant=tenant,
        enabled=tenant.spec.enabled,
        people=tuple(tenant.spec.owners),
        foreign=tenant.metadata.name in foreign,
    )


def child_branch(
    source: SubNamespace,
    above: Branch,
    *,
    root: Tenant,
    cache: CacheView,
    around: Surroundings,
    foreign: Iterable[str],
) -> Branch:
    name = child_of(source, around.cluster_uid)
    tenant, taken = above.tenant, name in foreign
    people: tuple[Subject, ...] = ()
    enabled = above.enabled
    space, sub = source.spec.workspace, source.spec.subtenant
    if sub is not None:
        tenant = cache[Tenant].find(name)
        if tenant is not None and _asker(tenant) != source.metadata.uid:
            tenant, taken = None, True
        people = (sub.owner,)
        enabled = enabled and (tenant is None or tenant.spec.enabled)
    elif space is not None:
        people = above.people if "RBAC" in space.inherit else ()
        if space.owner is not None and space.owner not in people:
            people = (*people, space.owner)
    path = (*above.path, above.name)
    claim, in_slice = _slice(source, above, name, cache)
    return _branch(
        name,
        cache,
        path=path,
        tenant=tenant,
        enabled=enabled,
        people=people,
        foreign=taken,
        source=source,
        claim=claim,
        in_slice=in_slice,
        barred=len(path) > root.spec.max_depth or _never(source),
    )


def _branch(
    name: str,
    cache: CacheView,
    *,
    path: tuple[str, ...],
    tenant: Tenant | None,
    enabled: bool,
    people: tuple[Subject, ...],
    foreign: bool,
    source: SubNamespace | None = None,
    claim: SliceClaim | None = None,
    in_slice: str = "",
    barred: bool = False,
) -> Branch:
    kept = Key(name, KEPT)
    return Branch(
        name=name,
        path=path,
        tenant=tenant,
        source=source,
        namespace=cache[Namespace].find(name),
        binding=cache[RoleBinding].get(kept),
        policy=cache[NetworkPolicy].get(kept),
        limits=cache[LimitRange].get(kept),
        quota=cache[ResourceQuota].get(kept),
        asks=len(cache[SubNamespace].all(name)),
        enabled=enabled,
        people=people,
        claim=claim,
        slice=in_slice,
        foreign=foreign,
        barred=barred,
    )


def _slice(
    source: SubNamespace, above: Branch, name: str, cache: CacheView
) -> tuple[SliceClaim | None, str]:
    """Its claim, and the slice it is in. What lies below a namespace in a slice is in it, too. One
    that lost its slice stays what it was: its pods have no node then, rather than shared ones."""
    wanted = source.spec.slice_claim
    if wanted is None:
        return None, above.slice
    found = cache[Namespace].find(name)
    before = found.metadata.labels.get(SLICE, "") if found is not None else ""
    claim = cache[SliceClaim].find(wanted, above.name)
    return claim, (claim.status.slice if claim is not None else "") or before


def _asker(tenant: Tenant) -> str:
    return tenant.spec.parent.uid if tenant.spec.parent is not None else ""


def _age(source: SubNamespace) -> tuple[str, str]:
    return source.metadata.creation_timestamp or "", source.metadata.name


def _never(source: SubNamespace) -> bool:
    """Over before it began."""
    end, born = source.spec.expires_at, source.metadata.creation_timestamp
    return end is not None and born is not None and end <= datetime.fromisoformat(born)


def unnamed(tree: Tree) -> Iterator[str]:
    """Children that a ledger names and nobody asks for: something may be left of them."""
    for branch in tree.branches.values():
        if branch.quota is not None and branch.mine:
            for child in ledger_of(branch.quota):
                if child not in tree.branches:
                    yield child


def below(name: str, cache: CacheView) -> list[Namespace]:
    """The namespaces that are still there of a child and of all below it."""
    found: list[Namespace] = []
    pending = [name]
    while pending and len(found) < 10_000:
        each = pending.pop()
        here = cache[Namespace].find(each)
        if here is not None:
            found.append(here)
        pending += [child.metadata.name for child in cache[Namespace].by(by_parent, each)]
    return found
