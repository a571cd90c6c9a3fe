"""The accounts of a tree, as the rules of quota see them."""

from __future__ import annotations

from collections.abc import Iterable

from edgewise.tenancy.quota.quantities import Amounts, NotAQuantity, amounts, wanted
from edgewise.tenancy.quota.reading import account_of
from edgewise.tenancy.quota.tree_quota import Account, TreeQuota, Want
from edgewise.tenancy.slices.nodes import as_quota
from edgewise.tenancy.tree.seen import Branch, Tree


def tree_quota_of(tree: Tree, total: Amounts) -> tuple[TreeQuota, dict[str, str]]:
    """And, of children whose amounts cannot be read, what is wrong."""
    accounts: dict[str, Account] = {}
    children: dict[str, dict[str, Want]] = {}
    wrong: dict[str, str] = {}
    for name, branch in tree.branches.items():
        if branch.quota is not None and branch.mine:
            accounts[name] = account_of(branch.quota)
        if branch.source is not None:
            want, trouble = _want(branch, total)
            children.setdefault(branch.parent, {})[name] = want
            if trouble:
                wrong[name] = trouble
    for parent, account in accounts.items():
        for child in account.ledger:
            if child not in children.get(parent, {}):
                left = Want(amounts={}, order=("", child), asked=False, gone=child in tree.gone)
                children.setdefault(parent, {})[child] = left
    quota = TreeQuota(
        core=tree.tenant.metadata.name,
        total=total,
        accounts=accounts,
        children=children,
        open=frozenset(name for name, branch in tree.branches.items() if branch.ready),
        asks={name: branch.asks for name, branch in tree.branches.items()},
    )
    return quota, wrong


def _want(branch: Branch, names: Iterable[str]) -> tuple[Want, str]:
    source = branch.source
    if source is None:
        raise ValueError(f"{branch.name} is the core of a tree, and wants nothing of anybody")
    order = (source.metadata.creation_timestamp or "", source.metadata.name)
    try:
        asks, trouble = wanted(source.spec.resources), ""
        if branch.has_slice and branch.claim is not None and not asks:
            # It gets what its nodes have.
            asks = as_quota(amounts(branch.claim.status.resources), names)
    except NotAQuantity as error:
        asks, trouble = {}, f"resources.{error}"
    waits = branch.sliced and not branch.has_slice and not branch.mine
    asked = not trouble and not branch.barred and not waits
    return Want(amounts=asks, order=order, there=branch.ready, asked=asked), trouble
