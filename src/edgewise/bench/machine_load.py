"""How busy this machine was during a measurement, and what its host gave to others.

The host of a virtual machine may run others on the same cores. What they take shows in every
latency, and in no figure of our own processes: without it nobody could tell why two runs differ.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

# Above this, a run says more about the neighbours than about us, and does not count.
MUCH_STOLEN_PERCENT = 1.0

_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # idle, and idle while waiting for a disk
_STOLEN = 7
_COUNTED = 8  # what follows is counted in the first two already


class MachineLoad(msgspec.Struct, frozen=True):
    """The kernel's count, of all cores together, at one moment."""

    total: int
    idle: int
    stolen: int

    @classmethod
    def now(cls, stat: str | None = None) -> MachineLoad:
        first = (_STAT.read_text() if stat is None else stat).partition("\n")[0]
        ticks = [int(field) for field in first.split()[1 : 1 + _COUNTED]]
        return cls(sum(ticks), sum(ticks[place] for place in _IDLE), ticks[_STOLEN])

    def until(self, later: MachineLoad) -> dict[str, float]:
        """What was used by this machine, and taken from it, in % of all its cores."""
        total = max(1, later.total - self.total)
        idle, stolen = later.idle - self.idle, later.stolen - self.stolen
        return {
            "busy_percent": round(100 * (total - idle - stolen) / total, 1),
            "stolen_percent": round(100 * stolen / total, 1),
        }
