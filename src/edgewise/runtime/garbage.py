"""Collections of garbage that do not take longer the more objects there are.

Python stops everything while it looks for garbage among all objects that it tracks. With ten
thousand tenants in the caches that is most of a second, during which nobody is answered. What has
outlived such a collection is nearly always something that stays: it is put aside, and the next
collection looks only at what came since. Objects that nothing refers to are freed at once as ever.
Only cycles that become garbage after they were put aside have to wait until all is looked at again.
"""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable
from typing import Any

# How long such cycles may wait, in seconds, if anything is collected then.
LOOK_AT_ALL_AFTER = 1800.0
_FULL = 2
# Who weighs a program tells it first, so that what is weighed is what it holds, and no garbage.
COLLECT = signal.SIGUSR1


def put_old_objects_aside(
    *,
    look_at_all_after: float = LOOK_AT_ALL_AFTER,
    monotonic: Callable[[], float] = time.monotonic,
) -> Callable[[], None]:
    """From now on, for the whole process; returns what ends it."""
    looked_at_all = monotonic()

    def collecting(phase: str, about: dict[str, Any]) -> None:
        nonlocal looked_at_all
        if about["generation"] != _FULL:
            return
        if phase == "stop":
            gc.freeze()
        elif monotonic() - looked_at_all >= look_at_all_after:
            looked_at_all = monotonic()
            gc.unfreeze()

    def end() -> None:
        gc.callbacks.remove(collecting)
        gc.unfreeze()

    gc.callbacks.append(collecting)
    return end


def collect_when_told() -> None:
    """All garbage, also what was put aside, whenever the process is sent `COLLECT`."""
    signal.signal(COLLECT, lambda *_: _collect_all())


def _collect_all() -> None:
    gc.unfreeze()
    gc.collect()
