"""A mark by which another process of the same machine can tell that this one is dead.

Only where that is certain: the mark names the boot of the machine, the namespace in which the
process id counts, and when the process began. Elsewhere nobody can say, and has to wait.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

_PROC = Path("/proc")
_STATE, _STARTED = 0, 19  # fields of /proc/PID/stat, counted after the name of the program


def own_mark() -> str:
    """Empty where the system does not tell enough."""
    here = _here()
    stat = _stat(os.getpid())
    return f"{here}/{os.getpid()}/{stat[_STARTED]}" if here and stat else ""


def is_dead(mark: str) -> bool:
    """Whether the process of a mark is certainly not running any more."""
    place, _, rest = mark.rpartition("/")
    place, _, pid = place.rpartition("/")
    if not place or place != _here() or not pid.isdecimal():
        return False
    try:
        # Asks the system itself: /proc may hide the processes of others.
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OverflowError:
        return False  # no system counts that far
    except OSError:
        pass
    stat = _stat(int(pid))
    # The number may have been given to somebody else, or wait to be collected by its parent.
    return bool(stat) and (stat[_STARTED] != rest or stat[_STATE] in ("Z", "X"))


def _here() -> str:
    """The machine since it was started, and the namespace in which process ids count."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return ""
    return f"{socket.gethostname()}/{boot}/{namespace}"


def _stat(pid: int) -> list[str]:
    try:
        # The name of the program is in brackets, and may hold anything, brackets included.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
    return fields if len(fields) > _STARTED else []
