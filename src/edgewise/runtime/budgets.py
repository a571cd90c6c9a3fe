"""How much each caller may ask for: a rate with a burst, in one number per caller.

The generic cell rate algorithm: per key it keeps only the time at which the caller's
burst would be whole again. A caller whose time has passed is as good as unknown and is
forgotten, so the table stays small; when it is full of busy callers nevertheless (say,
forged addresses), newcomers share one budget instead of growing it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

MOST_KEYS = 20_000


class Budgets:
    """`spend(key)` answers 0.0 (granted), or the seconds after which to come back."""

    def __init__(
        self,
        per_second: float,
        burst: int,
        *,
        most_keys: int = MOST_KEYS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError("a budget needs a rate above 0 and a burst of at least 1")
        self._interval = 1.0 / per_second
        self._tolerance = (burst - 1) * self._interval
        self._most_keys = most_keys
        self._monotonic = monotonic
        self._whole_again: dict[Hashable, float] = {}
        self._next_sweep = 0.0

    def spend(self, key: Hashable) -> float:
        now = self._monotonic()
        whole_again = self._whole_again.get(key)
        if whole_again is None and len(self._whole_again) >= self._most_keys:
            self._forget_idle(now)
            if len(self._whole_again) >= self._most_keys:
                key = None  # shared by all who found the table full
                whole_again = self._whole_again.get(None)
        start = now if whole_again is None else max(whole_again, now)
        wait = start - now - self._tolerance
        # Sums of intervals are off by rounding; that must not cost anybody a turn.
        if wait > self._interval * 1e-6:
            return wait
        self._whole_again[key] = start + self._interval
        return 0.0

    def __len__(self) -> int:
        return len(self._whole_again)

    def _forget_idle(self, now: float) -> None:
        if now < self._next_sweep:  # a flood must not buy a sweep per packet
            return
        self._next_sweep = now + 1.0
        busy = {key: when for key, when in self._whole_again.items() if when > now}
        self._whole_again = busy
