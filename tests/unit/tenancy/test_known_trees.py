"""What is known of a tree, after any changes, is what gathering it anew would find; and a plan that
leaves rested branches out wants what a plan of all of them wants."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from edgewise.api.tenancy import (
    OWNER_UID,
    PARENT,
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
from edgewise.api.tenancy_slices import SliceClaim, SliceClaimSpec, SliceClaimStatus
from edgewise.kube.kinds.core import LimitRange, Namespace, ResourceQuota
from edgewise.kube.kinds.networking import NetworkPolicy
from edgewise.kube.kinds.rbac import RbacSubject, RoleBinding
from edgewise.kube.objects import Key, Object
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.watches import CacheView
from edgewise.tenancy.known_trees import KnownTrees
from edgewise.tenancy.names import INHERITED, SUSPENDED
from edgewise.tenancy.observe import observe
from edgewise.tenancy.orders import Correct, Create, Delete, Inherit, Suspend, Sweep
from edgewise.tenancy.surroundings import Surroundings
from edgewise.tenancy.tree.plan import Plan, plan
from edgewise.tenancy.tree.seen import Branch, Tree

NOW = 1_800_000_000.0
AROUND = Surroundings(cluster_uid="cluster", operator=RbacSubject(kind="User", name="operator"))
ALICE = Subject(kind="User", name="alice")
KINDS: tuple[type[Object], ...] = (
    Tenant,
    SubNamespace,
    SliceClaim,
    TenantResourceQuota,
    Namespace,
    RoleBinding,
    NetworkPolicy,
    LimitRange,
    ResourceQuota,
)


class Land:
    """One tree in caches, with people, an operator and an administrator who breaks things."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.caches: dict[type[Object], Cache[Any]] = {kind: Cache(kind) for kind in KINDS}
        self.view = CacheView("test", self.caches)
        self.known = KnownTrees(smallest=1)
        self.known.follow(self.view)
        self.revision = 0
        self.claims: tuple[str | None, ...] = (None, None, "c0", "c1")
        for cache in self.caches.values():
            cache.replace([], "0")
        self.put(Tenant.named("acme", spec=TenantSpec(owners=[ALICE])))

    def put(self, obj: Any) -> None:
        self.revision += 1
        kind, before = type(obj), self.caches[type(obj)].get(obj.key)
        uid = before.metadata.uid if before is not None else f"uid-{self.revision}"
        meta = msgspec.structs.replace(
            obj.metadata,
            uid=uid,
            resource_version=str(self.revision),
            creation_timestamp="2026-01-01T00:00:00Z",
        )
        self.caches[kind].apply(msgspec.structs.replace(obj, metadata=meta))

    def drop(self, obj: Any) -> None:
        self.revision += 1
        meta = msgspec.structs.replace(obj.metadata, resource_version=str(self.revision))
        self.caches[type(obj)].apply(msgspec.structs.replace(obj, metadata=meta), deleted=True)

    @property
    def tenant(self) -> Tenant:
        found = self.caches[Tenant].get(Key("", "acme"))
        assert found is not None
        return found

    # Looking ------------------------------------------------------------------------

    def look(self) -> tuple[Tree, Plan]:
        known = self.known.observe(self.tenant, self.view, AROUND)
        whole = observe(self.tenant, self.view, AROUND)
        assert _told(known) == _told(whole)
        decided, anew = plan(known, NOW), plan(whole, NOW)
        assert _wanted(decided) == _wanted(anew)
        assert _said(decided) == _said(anew)
        if not decided.orders:
            self.known.rest("acme", decided.rested)
        return known, decided

    def reconcile(self, rounds: int) -> None:
        for _ in range(rounds):
            _, decided = self.look()
            for order in decided.orders:
                match order:
                    case Create(made=made):
                        self.put(made)
                    case Correct(found=found, patch=patch):
                        self.put(_patched(found, patch))
                    case Delete(found=found) | Sweep(found=found):
                        self.drop(found)
                    case Inherit(namespace=found, mark=mark):
                        self.put(_patched(found, _note(INHERITED, mark)))
                    case Suspend(namespace=found, suspended=suspended):
                        mark = "true" if suspended else None
                        self.put(_patched(found, _note(SUSPENDED, mark)))
            if not decided.orders:
                for say in decided.says:
                    if say.about.status != say.status:
                        self.put(msgspec.structs.replace(say.about, status=say.status))
                return

    # Changes ------------------------------------------------------------------------

    def act(self) -> None:
        chance = self.chance
        match chance.randrange(14):
            case 0 | 1 | 2:
                self.ask()
            case 3:
                self.change()
            case 4:
                self.lose(SubNamespace)
            case 5:
                self.lose(chance.choice((RoleBinding, NetworkPolicy, Namespace)))
            case 6:
                self.orphan()
            case 7:
                spec = msgspec.structs.replace(
                    self.tenant.spec,
                    enabled=chance.random() < 0.7,
                    max_depth=chance.choice((2, 8)),
                )
                self.put(msgspec.structs.replace(self.tenant, spec=spec))
            case 8:
                self.count()
            case 9:
                self.lose(Tenant)
            case 10:
                self.claim()
            case 11:
                self.lose(SliceClaim)
            case _:
                self.reconcile(chance.randrange(1, 12))

    def ask(self) -> None:
        where = [each.metadata.name for each in self.caches[Namespace]] or ["acme"]
        owner = Subject(kind="User", name="sam")
        space = Workspace(inherit=["RBAC"]) if self.chance.random() < 0.7 else None
        sub = None if space else Subtenant(owner=owner)
        name = f"n{self.chance.randrange(6)}"
        claim = self.chance.choice(self.claims)
        spec = SubNamespaceSpec(workspace=space, subtenant=sub, slice_claim=claim)
        made = SubNamespace.named(name, self.chance.choice(where), spec=spec)
        if self.caches[SubNamespace].get(made.key) is None:
            self.put(made)

    def claim(self) -> None:
        """One that is new, or gets another slice."""
        where = [each.metadata.name for each in self.caches[Namespace]] or ["acme"]
        name = f"c{self.chance.randrange(2)}"
        made = SliceClaim.named(name, self.chance.choice(where), spec=SliceClaimSpec(node_count=1))
        of = SliceClaimStatus(slice=self.chance.choice(("", "s0", "s1")))
        self.put(msgspec.structs.replace(made, status=of))

    def change(self) -> None:
        if found := self.caches[SubNamespace].all():
            one = self.chance.choice(found)
            labels = {"a": str(self.chance.randrange(3))}
            self.put(
                msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, labels=labels))
            )

    def lose(self, kind: type[Object]) -> None:
        found = [each for each in self.caches[kind].all() if each.key != Key("", "acme")]
        if found:
            self.drop(self.chance.choice(found))

    def orphan(self) -> None:
        where = [each.metadata.name for each in self.caches[Namespace]]
        if where:
            made = Namespace.named(f"stray{self.chance.randrange(3)}")
            made.metadata.labels = {PARENT: self.chance.choice(where), OWNER_UID: "gone"}
            self.put(made)

    def count(self) -> None:
        names = [each.metadata.name for each in self.caches[Namespace] if "n" in each.key.name]
        if names:
            name = self.chance.choice(names)
            self.put(TenantResourceQuota.named(name, spec=TenantResourceQuotaSpec()))


def _told(tree: Tree) -> Any:
    return (
        tree.tenant,
        {name: _branch(branch) for name, branch in tree.branches.items()},
        sorted(each.key for each in tree.orphans),
        sorted(each.key for each in tree.lost_tenants),
        sorted(each.key for each in tree.unheeded),
    )


def _branch(branch: Branch) -> Any:
    """Of the tenant above, a workspace needs who it is and what is asked for, not its status."""
    whose = branch.tenant
    if whose is None or branch.is_core:
        return branch, None
    return msgspec.structs.replace(branch, tenant=None), (whose.metadata.uid, whose.spec)


def _wanted(found: Plan) -> list[str]:
    return sorted(repr(order) for order in found.orders)


def _said(found: Plan) -> list[str]:
    return sorted(repr(say) for say in found.says if say.about.status != say.status)


def _note(name: str, value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {name: value}}}


def _patched(found: Any, patch: dict[str, Any]) -> Any:
    """As far as this plan patches: labels and annotations, or a whole field."""
    meta = found.metadata
    for field, values in patch.get("metadata", {}).items():
        merged = {**getattr(meta, field), **values}
        kept = {name: value for name, value in merged.items() if value is not None}
        meta = msgspec.structs.replace(meta, **{field: kept})
    document = {**msgspec.to_builtins(found), **{k: v for k, v in patch.items() if k != "metadata"}}
    return msgspec.structs.replace(msgspec.convert(document, type(found)), metadata=meta)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_known_of_a_tree_is_what_is_there_after_any_changes(seed: int) -> None:
    land = Land(seed)
    for _ in range(80):
        land.act()
        land.look()
    land.reconcile(200)
    land.look()


def test_nothing_is_known_of_a_tree_that_is_gone() -> None:
    land = Land(0)
    land.ask()
    land.reconcile(20)
    land.known.forget("acme")
    assert not vars(land.known)["_known"]
    assert not vars(land.known)["_roots"]


def test_a_tree_at_rest_is_not_planned_again() -> None:
    land = Land(1)
    land.claims = (None,)  # who waits for a slice does not rest
    for _ in range(30):
        land.ask()
        land.reconcile(20)
    land.look()
    tree, decided = land.look()
    barred = {branch.name for branch in tree.branches.values() if branch.barred}
    assert tree.rested == set(tree.branches) - barred
    assert {say.status.state for say in decided.says} <= {"Failed/TooDeep"}
