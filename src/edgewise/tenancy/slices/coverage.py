"""Whether the quota of a namespace covers the nodes that its claims want. Pure.

A claim's nodes count against what is free in its namespace until a subnamespace has taken them out
of the quota. The oldest claims come first.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from edgewise.kube.kinds.core import ResourceQuota
from edgewise.tenancy.quota.quantities import Amounts, text
from edgewise.tenancy.quota.reading import account_of
from edgewise.tenancy.slices.nodes import as_quota

# One of these must be limited: else nothing says how much of a node a tenant may have.
_OF_NODES = ("cpu", "memory", "requests.cpu", "requests.memory")


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim holds of its namespace's quota without being in it."""

    claim: str
    order: tuple[str, str]  # when it was made, and its name
    nodes: Amounts  # what its nodes have


def uncovered(
    nodes: Amounts, count: int, quota: ResourceQuota | None, older: Iterable[Held]
) -> str:
    """Why the nodes are not covered, in a sentence; empty: they are."""
    if quota is None:
        return (
            "spec.mode: a Dynamic claim needs a quota that covers its nodes, and this tenant has "
            "none: an administrator gives it one, or makes the slice of a Manual claim"
        )
    account = account_of(quota)
    names = sorted(account.hard)
    if not any(name in _OF_NODES for name in names):
        return (
            "spec.mode: a Dynamic claim needs a quota of cpu or memory, and this one has "
            f"{', '.join(names)}"
        )
    spoken_for = [as_quota(each.nodes, names) for each in older]
    for name, needed in sorted(as_quota(nodes, names).items()):
        spent = account.spent(name)
        if spent is None:
            return f"Kubernetes has not counted yet what is used of {name}"
        held = sum(each.get(name, 0) for each in spoken_for)
        free = max(0, account.hard.get(name, 0) - spent - held)
        if needed > free:
            which = "the node has" if count == 1 else f"the {count} nodes have"
            return (
                f"spec.nodeCount: {which} {name} {text(needed)}, and the quota of "
                f"{quota.metadata.namespace} covers {text(free)}"
            )
    return ""
