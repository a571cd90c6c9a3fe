"""How sentinels are ordered: names first."""

from __future__ import annotations

from edgewise.api.placement import Sentinel
from edgewise.placement.draft import Draft
from edgewise.placement.names import sentinel_name
from edgewise.workloads.deadlines import stamp

# Times the observation: what nothing is heard of for so long is not waited for.
UNHEARD = 10


def start(draft: Draft, sentinels: list[Sentinel]) -> None:
    """Their names are written before they are made: a restarted operator makes no others."""
    status, meta = draft.status, draft.seen.placement.metadata
    status.round += 1
    status.round_at = stamp(draft.now)
    for each in sentinels:
        each.name = sentinel_name(meta.name, meta.uid, status.next)
        status.next += 1
    status.sentinels = sentinels
    draft.orders.create += sentinels
