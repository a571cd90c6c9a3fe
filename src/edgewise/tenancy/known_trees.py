"""Large trees as they were seen last, with what changed since.

A reconcile looks at its whole tree after every round of writes. Of a tree with a thousand
namespaces one has changed: the caches say which, and only that branch is gathered again. Whatever
is not a plain change of one branch (something went, or is not what was asked for) makes the tree
be gathered anew, which is always right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from edgewise.api.tenancy import OWNER_UID, PARENT, SubNamespace, Tenant, TenantResourceQuota
from edgewise.api.tenancy_slices import SliceClaim
from edgewise.kube.kinds.core import LimitRange, Namespace, ResourceQuota
from edgewise.kube.kinds.networking import NetworkPolicy
from edgewise.kube.kinds.rbac import RoleBinding
from edgewise.kube.objects import Key, Object
from edgewise.runtime.watches import CacheView
from edgewise.tenancy.names import child_of
from edgewise.tenancy.observe import (
    by_parent,
    by_parent_namespace,
    child_branch,
    core_branch,
    observe,
)
from edgewise.tenancy.surroundings import Surroundings
from edgewise.tenancy.tree.seen import Branch, Tree

# Of smaller ones all is gathered sooner than it is found out what changed.
SMALLEST = 16
_KEPT: tuple[type[Object], ...] = (RoleBinding, NetworkPolicy, LimitRange, ResourceQuota)


class _Anew(Exception):
    """The tree has to be gathered from its core."""


class _Known(msgspec.Struct, kw_only=True):
    tree: Tree
    branches: dict[str, Branch]
    foreign: frozenset[str]
    children: Counter[str]
    rested: set[str] = msgspec.field(default_factory=set)
    touched: set[str] = msgspec.field(default_factory=set)  # namespaces with a change in them
    sources: set[Key] = msgspec.field(default_factory=set)  # SubNamespaces that changed
    torn: bool = False


class KnownTrees:
    def __init__(self, smallest: int = SMALLEST) -> None:
        self._smallest = smallest
        self._known: dict[str, _Known] = {}
        self._roots: dict[str, str] = {}  # of every namespace of a known tree

    def follow(self, cache: CacheView) -> None:
        """Before the caches have an object."""
        for kind in _KEPT:
            cache[kind].subscribe(self._kept_changed)
        cache[Namespace].subscribe(self._namespace_changed)
        cache[SubNamespace].subscribe(self._source_changed)
        cache[SliceClaim].subscribe(self._claim_changed)
        cache[Tenant].subscribe(self._tenant_changed)
        cache[TenantResourceQuota].subscribe(self._quota_changed)

    def forget(self, root: str) -> None:
        known = self._known.pop(root, None)
        for name in known.branches if known is not None else ():
            if self._roots.get(name) == root:
                del self._roots[name]

    def rest(self, root: str, names: Iterable[str]) -> None:
        """Nothing is wanted of these, as they were seen last."""
        if (known := self._known.get(root)) is not None:
            known.rested = {*names} & known.branches.keys()

    # Looking ------------------------------------------------------------------------

    def observe(
        self,
        tenant: Tenant,
        cache: CacheView,
        around: Surroundings,
        *,
        foreign: Iterable[str] = (),
        refused: str = "",
    ) -> Tree:
        root, others = tenant.metadata.name, frozenset(foreign)
        known = self._known.get(root)
        if (
            known is not None
            and not known.torn
            and (known.tree.around, known.foreign)
            == (
                around,
                others,
            )
        ):
            try:
                return self._catch_up(known, tenant, cache, refused)
            except _Anew:
                pass
        self.forget(root)
        tree = observe(tenant, cache, around, foreign=others, refused=refused)
        if len(tree.branches) >= self._smallest:
            self._known[root] = _Known(
                tree=tree,
                branches=dict(tree.branches),
                foreign=others,
                children=Counter(each.parent for each in tree.branches.values()),
            )
            self._roots |= dict.fromkeys(tree.branches, root)
        return tree

    def _catch_up(self, known: _Known, tenant: Tenant, cache: CacheView, refused: str) -> Tree:
        root = tenant.metadata.name
        if known.branches[root].tenant is not tenant:
            known.touched.add(root)
        touched, known.touched = known.touched, set()
        sources, known.sources = known.sources, set()
        for name in touched:
            if (before := known.branches.get(name)) is not None:
                self._replace(known, before, self._again(known, before, tenant, cache))
        for key in sources:
            self._source(known, key, tenant, cache)
        return msgspec.structs.replace(
            known.tree,
            tenant=tenant,
            branches=dict(known.branches),
            quota=cache[TenantResourceQuota].find(root),
            refused=refused,
            rested=frozenset(known.rested),
        )

    def _again(self, known: _Known, before: Branch, tenant: Tenant, cache: CacheView) -> Branch:
        if before.source is None:
            return core_branch(tenant, cache, known.foreign)
        return self._child(known, before.source, known.branches[before.parent], tenant, cache)

    def _child(
        self, known: _Known, source: SubNamespace, above: Branch, tenant: Tenant, cache: CacheView
    ) -> Branch:
        around = known.tree.around
        return child_branch(
            source, above, root=tenant, cache=cache, around=around, foreign=known.foreign
        )

    def _source(self, known: _Known, key: Key, tenant: Tenant, cache: CacheView) -> None:
        source, above = cache[SubNamespace].get(key), known.branches.get(key.namespace)
        if source is None or source.metadata.deleting or above is None or not above.mine:
            raise _Anew
        name = child_of(source, known.tree.around.cluster_uid)
        made, before = self._child(known, source, above, tenant, cache), known.branches.get(name)
        if before is not None:
            if before.source is None or before.source.metadata.uid != source.metadata.uid:
                raise _Anew
            self._replace(known, before, made)
            return
        if made.namespace is not None or made.foreign or _is_expected(name, cache):
            raise _Anew
        known.branches[name] = made
        known.children[above.name] += 1
        known.rested.discard(above.name)  # it tells how many children there are
        self._roots[name] = tenant.metadata.name

    def _replace(self, known: _Known, before: Branch, after: Branch) -> None:
        name = after.name
        if after.strange or after.foreign or (before.mine and not after.mine):
            raise _Anew
        if _of_another(after):
            raise _Anew
        if known.children[name] and _passed_on(before) != _passed_on(after):
            raise _Anew
        if after.mine and not before.mine and after.asks:
            raise _Anew
        known.branches[name] = after
        known.rested.discard(name)

    # What changed ---------------------------------------------------------------------

    def _touch(self, namespace: str) -> None:
        if (root := self._roots.get(namespace)) is not None:
            self._known[root].touched.add(namespace)

    def _tear(self, namespace: str) -> None:
        if (root := self._roots.get(namespace)) is not None:
            self._known[root].torn = True

    def _kept_changed(self, old: Any, new: Any, _: bool) -> None:
        self._touch((new or old).metadata.namespace)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None, _: bool) -> None:
        for each in (old, new):
            if each is None:
                continue
            name, above = each.metadata.name, each.metadata.labels.get(PARENT, "")
            self._touch(name)
            known = self._known.get(self._roots.get(name, ""))
            if known is None:
                self._tear(above)  # nothing asks for it there
            elif any(name == orphan.metadata.name for orphan in known.tree.orphans):
                known.torn = True

    def _source_changed(self, old: SubNamespace | None, new: SubNamespace | None, _: bool) -> None:
        found = new or old
        if found is None:
            return
        root = self._roots.get(found.metadata.namespace)
        if root is None:
            return
        known = self._known[root]
        if new is None or new.metadata.deleting:
            known.torn = True
            return
        known.sources.add(new.key)
        if old is None:
            known.touched.add(new.metadata.namespace)

    def _claim_changed(self, old: Any, new: Any, _: bool) -> None:
        # Everything below a namespace in a slice is in it: seldom enough to gather all again.
        self._tear((new or old).metadata.namespace)

    def _tenant_changed(self, old: Tenant | None, new: Tenant | None, _: bool) -> None:
        found = new or old
        if found is None:
            return
        name, parent = found.metadata.name, found.spec.parent
        self._touch(name)
        if new is None:
            self._tear(name)
        if parent is not None and name not in self._roots:
            self._tear(parent.namespace)

    def _quota_changed(self, old: Any, new: Any, _: bool) -> None:
        name = (new or old).metadata.name
        if self._roots.get(name, "") != name:
            self._tear(name)  # a subtenant's: that nothing follows from it is said there


def _of_another(branch: Branch) -> bool:
    """Whether its namespace was made for another SubNamespace, and nothing asks for it."""
    if branch.namespace is None or branch.source is None:
        return False
    return branch.namespace.metadata.labels.get(OWNER_UID) != branch.source.metadata.uid


def _is_expected(name: str, cache: CacheView) -> bool:
    """Whether something is there that belongs to a namespace that was not asked for until now."""
    return bool(
        cache[Namespace].by(by_parent, name)
        or cache[Tenant].by(by_parent_namespace, name)
        or cache[TenantResourceQuota].find(name)
    )


def _passed_on(branch: Branch) -> tuple[Any, ...]:
    """What the branches below take from this one."""
    tenant = branch.tenant
    whose = (tenant.metadata.uid, tenant.spec) if tenant is not None else None
    return whose, branch.ready, branch.enabled, branch.people, branch.slice
