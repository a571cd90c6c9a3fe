"""Nothing of ours stays that no round needs: neither a pod nor a deletion cost."""

from __future__ import annotations

from edgewise.placement.draft import Draft
from edgewise.placement.observed import Role


def tidy(draft: Draft) -> None:
    status = draft.status
    named = {each.name for each in status.sentinels}
    losers: set[str] = set()
    if status.decision is not None:
        # First the promotions, then the deletions.
        named |= set(status.decision.remove)
        losers = {each.loser_uid for each in status.decision.promote}
    nobodys = draft.seen.target is None or draft.seen.target.deleting
    for pod in draft.seen.pods:
        stray = pod.role is Role.STRAY or (pod.role is Role.PROMOTED and nobodys)
        if not pod.deleting and (stray or (pod.role is Role.SENTINEL and pod.name not in named)):
            draft.orders.delete.append(pod)
        elif pod.cost and pod.live and pod.uid not in losers:
            draft.orders.uncost.append(pod)
