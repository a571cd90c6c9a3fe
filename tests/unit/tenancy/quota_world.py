"""A tree of namespaces with quota, as small as it can be: the parts that Kubernetes and people
play, and the operator carrying out plans, possibly old ones, possibly killed after any write."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import msgspec

from edgewise.tenancy.quota.plan import plan_quota
from edgewise.tenancy.quota.tree_quota import (
    Account,
    NewAccount,
    QuotaPlan,
    QuotaWrite,
    SetEnforced,
    SetHard,
    TreeQuota,
    Want,
)

CORE = "core"


class Child(msgspec.Struct):
    parent: str
    want: dict[str, int]
    order: tuple[str, str]
    asked: bool = True
    there: bool = False
    terminating: bool = False


class Stale(Exception):
    """The API server refuses: somebody wrote since."""


class World:
    def __init__(self, total: Mapping[str, int]) -> None:
        self.total = dict(total)
        self.allowed = dict(total)  # what no sum may exceed: the total, or what it was until now
        self.accounts: dict[str, Account] = {}
        self.children: dict[str, Child] = {}
        self.pods: dict[str, dict[str, int]] = {}
        self.deleted_pods = 0
        self._versions = itertools.count(1)
        self._asked = itertools.count(1)

    # What the operator sees -----------------------------------------------------------

    def quota(self) -> TreeQuota:
        children: dict[str, dict[str, Want]] = {}
        for name, child in self.children.items():
            children.setdefault(child.parent, {})[name] = Want(
                amounts=dict(child.want),
                order=child.order,
                there=child.there and not child.terminating,
                gone=not child.asked and not self._left(name),
                asked=child.asked,
            )
        there = {name for name, child in self.children.items() if child.there}
        stays = {name for name in there if not self.children[name].terminating}
        return TreeQuota(
            core=CORE,
            total=dict(self.total),
            accounts=dict(self.accounts),
            children=children,
            open=frozenset({CORE, *stays}),
        )

    def _left(self, name: str) -> bool:
        below = [each for each, child in self.children.items() if child.parent == name]
        return self.children[name].there or any(self._left(each) for each in below)

    # What the operator does -----------------------------------------------------------

    def carry_out(self, plan: QuotaPlan, writes: int | None = None) -> None:
        """The first so many writes; what is refused is given up, as a reconcile does."""
        for write in plan.writes[:writes]:
            try:
                self._write(write)
            except Stale:
                return
            self.check()

    def _write(self, write: QuotaWrite) -> None:
        name = write.namespace
        held = self.accounts.get(name)
        if isinstance(write, NewAccount):
            if held is not None or not self._exists(name):
                raise Stale
            self._store(Account(namespace=name, hard=write.hard, ledger={}))
            return
        if held is None or held.version != write.version:
            raise Stale
        if isinstance(write, SetHard):
            self._store(msgspec.structs.replace(held, hard=write.hard, ledger=write.ledger))
        if isinstance(write, SetEnforced):
            enforced = {**(held.enforced or {}), **write.enforced}
            self._store(msgspec.structs.replace(held, enforced=enforced))

    def _exists(self, name: str) -> bool:
        child = self.children.get(name)
        return name == CORE or (child is not None and child.there and not child.terminating)

    def _store(self, account: Account) -> None:
        version = str(next(self._versions))
        self.accounts[account.namespace] = msgspec.structs.replace(account, version=version)

    def keep_namespaces(self, writes: int | None = None) -> None:
        """A child exists only if the ledger names it, and goes when nobody asks for it."""
        done = 0
        for name, child in list(self.children.items()):
            if writes is not None and done >= writes:
                return
            parent = self.accounts.get(child.parent)
            named = parent is not None and name in parent.ledger
            if child.asked and not child.there and named and self._exists(child.parent):
                child.there, done = True, done + 1
            if child.there and not child.terminating and not self._wanted(child):
                child.terminating, done = True, done + 1

    def _wanted(self, child: Child) -> bool:
        above = self.children.get(child.parent)
        return child.asked and (above is None or (above.there and not above.terminating))

    def reconcile(self, writes: int | None = None) -> None:
        self.carry_out(plan_quota(self.quota()), writes)
        self.keep_namespaces(writes)

    def settle(self) -> None:
        """Everybody does what there is to do, until nothing is."""
        for _ in range(400):
            before = self._digest()
            self.reconcile()
            for name in list(self.accounts):
                self.count(name)
            self.end_namespaces()
            if before == self._digest():
                self.allowed = dict(self.total)
                self.check()
                return
        raise AssertionError(f"it never comes to rest: {plan_quota(self.quota()).writes}")

    def _digest(self) -> object:
        accounts = {
            name: (each.hard, each.ledger, each.enforced, each.used)
            for name, each in self.accounts.items()
        }
        return msgspec.json.encode([accounts, self.children])

    # Kubernetes -----------------------------------------------------------------------

    def count(self, name: str) -> None:
        """The quota controller looks at one quota."""
        held = self.accounts.get(name)
        if held is None:
            return
        used = {each: self.pods.get(name, {}).get(each, 0) for each in held.hard}
        if (held.enforced, held.used) != (held.hard, used):
            self._store(msgspec.structs.replace(held, enforced=dict(held.hard), used=used))
        self.check()

    def create_pod(self, name: str, cost: Mapping[str, int]) -> bool:
        held = self.accounts.get(name)
        if not self._exists(name) or held is None or held.enforced is None or held.used is None:
            return False
        used = dict(held.used)
        for each, amount in cost.items():
            if each not in used or used[each] + amount > held.enforced.get(each, 0):
                return False
            used[each] += amount
        pods = self.pods.setdefault(name, {})
        for each, amount in cost.items():
            pods[each] = pods.get(each, 0) + amount
        self._store(msgspec.structs.replace(held, used=used))
        self.check()
        return True

    def delete_pods(self, name: str) -> None:
        self.pods.pop(name, None)

    def end_namespaces(self) -> None:
        for name, child in list(self.children.items()):
            if child.there and child.terminating:
                self.pods.pop(name, None)
                self.accounts.pop(name, None)
                child.there = False
                for other in self.children.values():
                    if other.parent == name:
                        other.asked = False

    # People ---------------------------------------------------------------------------

    def ask(self, parent: str, want: Mapping[str, int]) -> str:
        number = next(self._asked)
        name = f"n{number}"
        self.children[name] = Child(parent, dict(want), (f"{number:04}", name))
        return name

    def grant_total(self, total: Mapping[str, int]) -> None:
        self.allowed = {
            name: max(self.allowed.get(name, 0), total.get(name, 0)) for name in self.total
        }
        self.total = dict(total)

    # What must hold at every revision ---------------------------------------------------

    def check(self) -> None:
        for name in self.total:
            enforced = sum((each.enforced or {}).get(name, 0) for each in self.accounts.values())
            most = sum(
                max(each.hard.get(name, 0), (each.enforced or {}).get(name, 0))
                for each in self.accounts.values()
            )
            allowed = self.allowed[name]
            assert enforced <= allowed, f"{name}: {enforced} is enforced, {allowed} is allowed"
            assert most <= allowed, f"{name}: up to {most} could be enforced, {allowed} is allowed"
        for account in self.accounts.values():
            assert all(amount >= 0 for amount in account.hard.values()), account
            for entry in account.ledger.values():
                assert all(amount >= 0 for amount in entry.values()), account

    def check_at_rest(self) -> None:
        """hard(v) + Σ alloc(children) = alloc(v), from the core down."""
        for name in self.total:
            assert self.accounts[CORE].allocated(name) == self.total[name]
            for account in self.accounts.values():
                for child, entry in account.ledger.items():
                    held = self.accounts.get(child)
                    if held is not None:
                        assert held.allocated(name) == entry[name], (account, held)
