"""The next safe writes by which amounts move through a tree.

What every step keeps, for each name of a resource: the most that all namespaces together can use,
before or after Kubernetes looks at a changed quota, is never above the total. So an amount is
cut where it was, Kubernetes enforces the cut, and only then it is given to somebody else. A crash
after any write leaves a tree from which the same rules go on.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.tenancy.names import SUBNAMESPACES
from edgewise.tenancy.quota.quantities import NANO, Amounts, text
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

# Annotations of one object have 256 KiB together; amounts that are taken back may be longer.
MOST_WRITTEN = 192 * 1024
FULL = (
    "the parent has as many children as one ResourceQuota can tell of: make it the child of "
    "another namespace"
)


def plan_quota(quota: TreeQuota) -> QuotaPlan:
    names = tuple(sorted(quota.total))
    writes: list[QuotaWrite] = []
    short: dict[str, str] = {}
    settled = True
    pending: list[tuple[str, Holding]] = [(quota.core, Holding.of_core(quota.total))]
    while pending:
        namespace, holding = pending.pop()
        account = quota.accounts.get(namespace)
        if account is None:
            if namespace in quota.open and holding.may_grow:
                hard = {name: holding.target(name) for name in names}
                writes.append(NewAccount(namespace=namespace, hard=hard))
            settled = False
            continue
        step = _Step(quota, account, holding, names)
        if (write := step.write()) is not None:
            writes.append(write)
        short |= step.short
        settled = settled and step.settled
        for child, entry in account.ledger.items():
            want = step.children.get(child)
            held = Holding(
                entry=entry,
                want=want.amounts if want is not None and want.asked else None,
                may_grow=account.settled(names),
            )
            pending.append((child, held))
    return QuotaPlan(
        writes=tuple(writes),
        short=short,
        over=tuple(sorted(each for each in quota.accounts if _over(quota.accounts[each], names))),
        live=frozenset(
            each
            for each, account in quota.accounts.items()
            if account.enforced is not None and all(name in account.enforced for name in names)
        ),
        settled=settled and not writes and not short,
    )


def written(child: str, entry: Amounts) -> int:
    """How many characters of a ledger this takes, at most."""
    return len(child) + 6 + sum(len(name) + len(text(entry[name])) + 6 for name in entry)


def _over(account: Account, names: tuple[str, ...]) -> bool:
    return any((account.spent(name) or 0) > account.hard.get(name, 0) for name in names)


def usable(namespace: str, name: str, accounts: Mapping[str, Account]) -> int:
    """The most that can be used in a namespace and below, before or after Kubernetes looks:
    a ledger that was cut says less than its children still hold."""
    account = accounts.get(namespace)
    if account is None:
        return 0
    here = max(account.hard.get(name, 0), (account.enforced or {}).get(name, 0))
    return here + sum(
        max(entry.get(name, 0), usable(child, name, accounts))
        for child, entry in account.ledger.items()
    )


class Holding:
    """What a namespace holds of its parent, and what it is meant to hold."""

    def __init__(self, *, entry: Amounts, want: Amounts | None, may_grow: bool) -> None:
        self._entry = entry
        self._want = want
        self.may_grow = may_grow  # the parent can no longer use what is in the entry

    @classmethod
    def of_core(cls, total: Amounts) -> Holding:
        return cls(entry=total, want=None, may_grow=True)

    def entry(self, name: str) -> int:
        return self._entry.get(name, 0)

    def target(self, name: str) -> int:
        """Never more than the parent gave; less, if the parent wants some of it back."""
        if self._want is None:
            return self.entry(name)
        return min(self.entry(name), self._want.get(name, 0))


class _Step:
    """One account: what its spec should say, or else its status."""

    def __init__(
        self, quota: TreeQuota, account: Account, holding: Holding, names: tuple[str, ...]
    ) -> None:
        self._account = account
        self._holding = holding
        self.children: Mapping[str, Want] = quota.children.get(account.namespace, {})
        self._accounts = quota.accounts
        self._asks = quota.asks.get(account.namespace, 0) * NANO
        self._names = names
        self.short: dict[str, str] = {}
        self._written: int | None = None  # characters of the ledger, once anybody asks
        self._hard = {name: account.hard.get(name, 0) for name in names}
        self._ledger = {
            child: {name: entry.get(name, 0) for name in names}
            for child, entry in account.ledger.items()
        }

    def write(self) -> QuotaWrite | None:
        self._release()
        self._take_back()
        self._undo()
        self._meet_target()
        self._grant()
        account = self._account
        if self._hard != dict(account.hard) or self._ledger != {
            child: dict(entry) for child, entry in account.ledger.items()
        }:
            return SetHard(
                namespace=account.namespace,
                hard=self._hard,
                ledger=self._ledger,
                version=account.version,
            )
        return self._enforce()

    @property
    def settled(self) -> bool:
        """Whether nothing here waits for an amount: all is counted, and as it is wanted."""
        return all(
            self._holding.target(name) == self._allocated(name)
            and self._account.spent(name) is not None
            for name in self._names
        ) and all(
            want.asked
            and child in self._ledger
            and all(self._ledger[child][name] == want.amounts.get(name, 0) for name in self._names)
            for child, want in self.children.items()
        )

    # The spec -----------------------------------------------------------------------

    def _release(self) -> None:
        """What children held of whom nothing is left comes back."""
        for child in list(self._ledger):
            want = self.children.get(child)
            if want is not None and want.gone:
                for name, amount in self._ledger.pop(child).items():
                    self._hard[name] += amount

    def _take_back(self) -> None:
        """What a child was asked to give back, as far as it can no longer use it."""
        for child, entry in self._ledger.items():
            want, account = self.children.get(child), self._accounts.get(child)
            if want is None or not want.asked or account is None or account.enforced is None:
                continue
            for name in self._names:
                needed = max(want.amounts.get(name, 0), self._usable(child, name))
                if needed < entry[name]:
                    self._hard[name] += entry[name] - needed
                    entry[name] = needed

    def _undo(self) -> None:
        """Grants that came too late, because pods were faster: the newest first."""
        for name in self._exceeded():
            for child in self._newest_first():
                if self._hard[name] >= (self._account.spent(name) or 0):
                    break
                unspent = self._ledger[child][name] - self._usable(child, name)
                if unspent > 0:
                    self._hard[name] += unspent
                    self._ledger[child][name] -= unspent
            # What the parent asked for, but is in use, stays here for now.
            spare = self._holding.entry(name) - self._held(name)
            missing = (self._account.spent(name) or 0) - self._hard[name]
            if spare > 0 and missing > 0 and self._holding.may_grow:
                self._hard[name] += min(spare, missing)

    def _exceeded(self) -> list[str]:
        """Names whose cut Kubernetes does not enforce yet, and which are used above it."""
        enforced = self._account.enforced or {}
        return [
            name
            for name in self._names
            if enforced.get(name, 0) > self._hard[name]
            and (self._account.spent(name) or 0) > self._hard[name]
        ]

    def _meet_target(self) -> None:
        for name in self._names:
            lacking = self._holding.target(name) - self._allocated(name)
            if lacking > 0 and self._holding.may_grow:
                # After a cut, children may use for a while what the ledger does not give them.
                free = self._holding.target(name) - self._held(name)
                self._hard[name] += max(0, free)
            elif lacking < 0:
                forced = max(0, self._allocated(name) - self._holding.entry(name))
                self._cut(name, forced)
                self._give_back(name, -lacking - forced)

    def _cut(self, name: str, amount: int) -> None:
        """It is not ours any more: from here first, then from the newest children."""
        here = min(amount, self._hard[name])
        self._hard[name] -= here
        amount -= here
        for child in self._newest_first():
            taken = min(amount, self._ledger[child][name])
            self._ledger[child][name] -= taken
            amount -= taken

    def _give_back(self, name: str, amount: int) -> None:
        """The parent asks for it: only what is neither used nor given on."""
        spent = self._account.spent(name)
        if spent is not None:
            self._hard[name] -= max(0, min(amount, self._hard[name] - spent))

    def _grant(self) -> None:
        if self._account.enforced is None:
            return
        oldest_first = sorted(self.children.items(), key=lambda each: each[1].order)
        for child, want in oldest_first:
            if want.gone or not want.asked:
                continue
            before = self._ledger.get(child)
            if before is None and want.there and self._fits(child, nothing := self._nothing()):
                # It was there before there was quota: it holds nothing, until it gets some.
                before = self._ledger[child] = nothing
            reason = self._shortage(child, want)
            entry = before or self._nothing()
            more = {name: max(0, want.amounts.get(name, 0) - entry[name]) for name in self._names}
            entry = {name: entry[name] + more[name] for name in self._names}
            if not reason and (before is None or any(more.values())):
                reason = "" if self._fits(child, entry) else FULL
            if reason:
                self.short[child] = reason
                continue
            self._ledger[child] = entry
            for name in self._names:
                self._hard[name] -= more[name]

    def _nothing(self) -> dict[str, int]:
        return dict.fromkeys(self._names, 0)

    def _fits(self, child: str, entry: Amounts) -> bool:
        """Whether the ledger can still be written with this in it: one that the API server refuses
        would hold up the whole tree. What fits is taken to be written."""
        if self._written is None:
            self._written = sum(written(*each) for each in self._ledger.items())
        before = written(child, self._ledger[child]) if child in self._ledger else 0
        after = self._written - before + written(child, entry)
        if after > MOST_WRITTEN:
            return False
        self._written = after
        return True

    def _shortage(self, child: str, want: Want) -> str:
        entry = self._ledger.get(child, {})
        for name in sorted(want.amounts):
            if name not in self._names:
                held = ", ".join(self._names)
                return f"resources.{name}: the parent has no quota of it; it has {held}"
            more = want.amounts[name] - entry.get(name, 0)
            if more <= 0:
                continue
            spent = self._account.spent(name)
            if spent is None:
                return f"resources.{name}: Kubernetes has not counted yet what is used of it"
            free = max(0, self._hard[name] - spent)
            if more > free:
                return (
                    f"resources.{name}: {text(more)} more is wanted, and {text(free)} is free in "
                    "the parent"
                )
        return ""

    def _allocated(self, name: str) -> int:
        return self._hard[name] + sum(entry[name] for entry in self._ledger.values())

    def _held(self, name: str) -> int:
        """What is here, and what children hold or can still use."""
        return self._hard[name] + sum(
            max(entry[name], self._usable(child, name)) for child, entry in self._ledger.items()
        )

    def _usable(self, child: str, name: str) -> int:
        return usable(child, name, self._accounts)

    def _newest_first(self) -> list[str]:
        def age(child: str) -> tuple[str, str]:
            want = self.children.get(child)
            return want.order if want is not None else ("", child)

        return sorted(self._ledger, key=age, reverse=True)

    # The status ---------------------------------------------------------------------

    def _enforce(self) -> SetEnforced | None:
        account = self._account
        enforced = account.enforced
        if enforced is None:
            wanted = dict(self._hard)
        else:
            wanted = {
                name: min(enforced.get(name, self._hard[name]), self._hard[name])
                for name in self._names
            }
        used = self._counted()
        if not used and wanted == {name: (enforced or {}).get(name) for name in self._names}:
            return None
        return SetEnforced(
            namespace=account.namespace, enforced=wanted, version=account.version, used=used
        )

    def _counted(self) -> Amounts:
        """SubNamespaces, where Kubernetes has not counted them or too few: it learns of a new kind
        late, and lets none in that it does not count. When some go, it is Kubernetes that says so:
        what is being admitted is counted before it can be seen."""
        if SUBNAMESPACES not in self._names:
            return {}
        spent = self._account.spent(SUBNAMESPACES)
        return {SUBNAMESPACES: self._asks} if spent is None or spent < self._asks else {}
