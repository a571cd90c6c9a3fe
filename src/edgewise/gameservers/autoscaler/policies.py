"""How many servers each policy wishes for. What becomes of a wish is said in `bounds`."""

from __future__ import annotations

import math
from functools import lru_cache

from edgewise.api.games import BufferPolicy, SchedulePolicy
from edgewise.gameservers.autoscaler.cron import BadCron, last_due, parse_cron, zone_of
from edgewise.gameservers.autoscaler.observed import Counts, Trouble

_PERCENT_OVER = 100


def buffered(policy: BufferPolicy, counts: Counts) -> int | Trouble:
    """So many free servers besides those in use, or so many percent of all."""
    size = policy.size
    if isinstance(size, int):
        if size < 0:
            return Trouble("BadPolicy", "policy.buffer.size is negative")
        return counts.in_use + size
    digits = size.removesuffix("%")
    if not size.endswith("%") or not digits.isascii() or not digits.isdecimal():
        return Trouble(
            "BadPolicy", f"policy.buffer.size {size!r} is no number and no percentage such as 20%"
        )
    percent = int(digits[:4])
    if not 0 < percent < _PERCENT_OVER:
        return Trouble("BadPolicy", f"policy.buffer.size {size} is not between 1% and 99%")
    whole = math.ceil(counts.in_use * 100 / (100 - percent))
    # Of nobody there is no percentage: one free server lets the first player in.
    return max(whole, counts.in_use + 1)


def scheduled(policy: SchedulePolicy, now: float) -> int | Trouble:
    """What the entry says that came due last."""
    latest: tuple[float, int] | None = None
    try:
        zone_of(policy.zone)
        for number, entry in enumerate(policy.entries):
            try:
                due = _last_due(entry.cron, policy.zone, int(now // 60))
            except BadCron as error:
                raise BadCron(f"policy.schedule.entries[{number}].cron: {error}") from error
            # Of two at the same moment the later in the list counts.
            if due is not None and (latest is None or due >= latest[0]):
                latest = (due, entry.replicas)
    except BadCron as error:
        return Trouble("BadPolicy", str(error))
    if latest is None:
        return Trouble("BadPolicy", "policy.schedule: no entry ever comes due")
    return latest[1]


@lru_cache(maxsize=4096)
def _last_due(cron: str, zone: str, minute: int) -> float | None:
    """Once a minute, which is as often as anything can come due: an autoscaler may be looked at
    every second, and all of them share one loop with everything else."""
    return last_due(parse_cron(cron), zone_of(zone), minute * 60.0)
