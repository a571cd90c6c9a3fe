"""Who gets a place at a listener, and who makes room.

A place costs memory, so there is a number of them: in all, and for one address. A caller who has
connected and has not yet said what it wants (a TLS handshake or the headers of a request are not
complete) *waits*, and those who wait are bounded more tightly, because they need no token.

Nobody is kept out by those who wait: a newcomer takes the place of whoever has waited longest,
of the address with the most of them. An honest caller waits for milliseconds, so that it is
pushed out only if hundreds come after it within that time. Where everybody is being served, the
address with the most connections gives up the one that it used least lately.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import msgspec


class Holder(Protocol):
    """A connection, by the address of its other end.

    A trusted proxy speaks for many: the bound for one address does not hold for it.
    """

    @property
    def address(self) -> str: ...

    @property
    def trusted(self) -> bool: ...


H = TypeVar("H", bound=Holder)


class Entry(msgspec.Struct, Generic[H], frozen=True):
    admitted: bool
    makes_room: H | None = None  # to be closed by whoever asked


class Places(Generic[H]):
    """`enter`, then `waits` and `settles` in turn, then `leave`."""

    def __init__(self, most: int, per_address: int, waiting: int) -> None:
        self._most = most
        self._per_address = per_address
        self._most_waiting = waiting
        self._total = 0
        self._waiting_total = 0
        # In the order of their last request, and in the order in which they began to wait.
        self._open: dict[str, dict[H, None]] = {}
        self._waiting: dict[str, dict[H, None]] = {}

    def __len__(self) -> int:
        return self._total

    @property
    def waiting(self) -> int:
        return self._waiting_total

    def enter(self, holder: H) -> Entry[H]:
        """A newcomer, who waits from the start."""
        mine = self._open.get(holder.address, {})
        goes: H | None = None
        if len(mine) >= self._per_address and not holder.trusted:
            goes = next(iter(self._waiting.get(holder.address, ())), None)
            if goes is None:
                return Entry(False)
        elif self._total >= self._most:
            goes = self.longest_waiting() or self._least_used(len(mine))
            if goes is None:
                return Entry(False)
        elif self._waiting_total >= self._most_waiting:
            goes = self.longest_waiting()
        if goes is not None:
            self.leave(goes)
        self._open.setdefault(holder.address, {})[holder] = None
        self._total += 1
        self._begin_to_wait(holder)
        return Entry(True, goes)

    def waits(self, holder: H) -> H | None:
        """A request has begun, and its headers are not complete. Answers who makes room."""
        if holder not in self._open.get(holder.address, ()):
            return None
        goes: H | None = None
        if holder not in self._waiting.get(holder.address, ()):
            if self._waiting_total >= self._most_waiting:
                goes = self.longest_waiting()
                if goes is not None:
                    self.leave(goes)
            self._begin_to_wait(holder)
        return goes

    def settles(self, holder: H) -> None:
        """The headers of its request are complete."""
        mine = self._open.get(holder.address, {})
        if holder in mine:
            del mine[holder]
            mine[holder] = None
        self._end_waiting(holder)

    def leave(self, holder: H) -> None:
        mine = self._open.get(holder.address, {})
        if holder not in mine:
            return
        self._end_waiting(holder)
        del mine[holder]
        self._total -= 1
        if not mine:
            del self._open[holder.address]

    def longest_waiting(self) -> H | None:
        """Of the address that has the most of them waiting."""
        if not self._waiting:
            return None
        most: dict[H, None] = max(self._waiting.values(), key=len)
        return next(iter(most))

    def _least_used(self, of_newcomer: int) -> H | None:
        """Of the address with the most connections, if it has more than the newcomer would."""
        others = [held for held in self._open.values() if not next(iter(held)).trusted]
        most = max(others, key=len, default={})
        return next(iter(most)) if len(most) > of_newcomer + 1 else None

    def _begin_to_wait(self, holder: H) -> None:
        self._waiting.setdefault(holder.address, {})[holder] = None
        self._waiting_total += 1

    def _end_waiting(self, holder: H) -> None:
        mine = self._waiting.get(holder.address, {})
        if holder in mine:
            del mine[holder]
            self._waiting_total -= 1
            if not mine:
                del self._waiting[holder.address]
