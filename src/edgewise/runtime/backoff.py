"""How long to wait before trying again: longer each time, and never in step with others."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """Doubles from `first` up to `most`; the upper half of each delay is random."""

    first: float = 0.05
    most: float = 60.0
    factor: float = 2.0

    def delay(self, failures: int, chance: Callable[[], float] = random.random) -> float:
        """The wait after so many failures in a row (1 is the first)."""
        # The exponent is bounded, so that a key that failed for a week does not overflow.
        longest = min(self.most, self.first * self.factor ** min(failures - 1, 64))
        return longest * (0.5 + 0.5 * chance())
