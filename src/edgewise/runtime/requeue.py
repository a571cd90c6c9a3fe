"""When a reconcile wants to run again without anything having changed."""

from __future__ import annotations

from typing import Self

import msgspec


class Requeue(msgspec.Struct, frozen=True):
    """What a reconcile answers; each answer replaces the one before."""

    delay: float | None = None
    moment: float | None = None

    @classmethod
    def never(cls) -> Self:
        """Only when something changes."""
        return cls()

    @classmethod
    def now(cls) -> Self:
        return cls(delay=0.0)

    @classmethod
    def after(cls, seconds: float) -> Self:
        """So many seconds from now, whatever the wall clock does meanwhile."""
        return cls(delay=max(0.0, seconds))

    @classmethod
    def at(cls, moment: float | None) -> Self:
        """When the wall clock reaches `moment` (seconds since the epoch); None is never."""
        return cls(moment=moment)
