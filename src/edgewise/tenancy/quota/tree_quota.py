"""What the rules of quota see: one account for each namespace of a tree, and who wants what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from edgewise.tenancy.quota.quantities import Amounts


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The ResourceQuota of one namespace, at one version of it."""

    namespace: str
    hard: Amounts  # what Kubernetes will enforce once it has looked
    ledger: Mapping[str, Amounts]  # what each child holds
    enforced: Amounts | None = None  # what Kubernetes enforces now
    used: Amounts | None = None
    version: str = ""

    def allocated(self, name: str) -> int:
        """What is here and below: nobody else may have it."""
        return self.hard.get(name, 0) + sum(each.get(name, 0) for each in self.ledger.values())

    def settled(self, names: Iterable[str]) -> bool:
        """Whether what was taken from here can no longer be used here."""
        return self.enforced is not None and all(
            name in self.enforced and self.enforced[name] <= self.hard.get(name, 0)
            for name in names
        )

    def spent(self, name: str) -> int | None:
        """What is used, if it is known."""
        return None if self.used is None else self.used.get(name)


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """A child as its parent wants it."""

    amounts: Amounts
    order: tuple[str, str]  # when it was asked for, and its name
    there: bool = False  # its namespace exists, whatever the ledger says
    gone: bool = False  # nothing of it is left, nor of what was below it
    asked: bool = True  # its SubNamespace exists, so that it may get more


class TreeQuota(msgspec.Struct, frozen=True, kw_only=True):
    """One tree."""

    core: str
    total: Amounts
    accounts: Mapping[str, Account]
    children: Mapping[str, Mapping[str, Want]]  # of each namespace
    # Namespaces that exist and may get an account.
    open: frozenset[str] = frozenset()
    # How many SubNamespaces are in each: of these Kubernetes may not know for minutes.
    asks: Mapping[str, int] = {}


class NewAccount(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    hard: Amounts


class SetHard(msgspec.Struct, frozen=True, kw_only=True):
    """Spec and ledger in one write, if nobody wrote since `version`."""

    namespace: str
    hard: Amounts
    ledger: Mapping[str, Amounts]
    version: str


class SetEnforced(msgspec.Struct, frozen=True, kw_only=True):
    """`hard` of the status, if nobody wrote since `version`; `used` only of what we count."""

    namespace: str
    enforced: Amounts
    version: str
    used: Amounts = {}


QuotaWrite = NewAccount | SetHard | SetEnforced


class QuotaPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Writes that do not depend on each other: each is safe whether the others happen or not."""

    writes: tuple[QuotaWrite, ...]
    short: Mapping[str, str]  # child to why it does not get what it wants
    over: tuple[str, ...]  # namespaces that use more than they hold
    live: frozenset[str]  # namespaces whose quota is enforced: people may come in
    settled: bool = False  # all hold what is wanted: whatever is used, nothing follows
