"""Whether somebody who was let in may still be here: asked at every turn, worked out rarely."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

# Not all changes can be seen coming: an issuer of tokens may take its keys back.
RECHECK_SECONDS = 15.0


class Welcome:
    """`version` changes with what the answer depends on; `expires` is of the wall clock."""

    def __init__(
        self,
        still_holds: Callable[[], Awaitable[bool]],
        *,
        version: Callable[[], object],
        expires: float | None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._still_holds = still_holds
        self._version = version
        self._expires = expires
        self._clock = clock
        self._monotonic = monotonic
        self._checked = (version(), monotonic())

    @property
    def left(self) -> float:
        """Seconds until it ends by itself."""
        return float("inf") if self._expires is None else self._expires - self._clock()

    async def holds(self) -> bool:
        if self.left <= 0:
            return False
        version, when = self._checked
        if version == self._version() and self._monotonic() - when < RECHECK_SECONDS:
            return True
        # Noted first: what changes during the question is asked about the next time.
        self._checked = (self._version(), self._monotonic())
        return await self._still_holds()
