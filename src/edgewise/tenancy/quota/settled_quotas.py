"""Trees in which everybody holds what is wanted: there it does not matter how much is used.

Kubernetes writes a quota for every pod that comes or goes. A tree has to be looked at then only if
something waits for an amount to become free.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgewise.kube.kinds.core import ResourceQuota
from edgewise.tenancy.names import LEDGER
from edgewise.tenancy.quota.quantities import NotAQuantity, amounts

Essence = tuple[Any, ...]


def essence(quota: ResourceQuota) -> Essence:
    """All but how much is used, as long as that is known and no more than there is."""
    meta, status = quota.metadata, quota.status
    return (
        meta.uid,
        meta.deleting,
        meta.labels,
        meta.annotations.get(LEDGER),
        quota.spec.hard,
        status.hard,
        sorted(status.used),
        _exceeded(quota),
    )


def _exceeded(quota: ResourceQuota) -> bool:
    try:
        used, hard = amounts(quota.status.used), amounts(quota.status.hard)
    except NotAQuantity:
        return True
    return any(used[name] > hard.get(name, 0) for name in used)


class SettledQuotas:
    def __init__(self) -> None:
        self._trees: dict[str, dict[str, Essence]] = {}

    def settle(self, root: str, quotas: Iterable[ResourceQuota]) -> None:
        self._trees[root] = {each.metadata.namespace: essence(each) for each in quotas}

    def unsettle(self, root: str) -> None:
        self._trees.pop(root, None)

    def matters(self, root: str, quota: ResourceQuota) -> bool:
        known = self._trees.get(root, {}).get(quota.metadata.namespace)
        return known is None or known != essence(quota)
