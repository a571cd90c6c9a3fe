"""Which ports clients are given."""

from __future__ import annotations

import msgspec


class PortRange(msgspec.Struct, frozen=True):
    """Public ports, both ends included. They must not be the system's own for outgoing
    connections (from 32768 on), which would collide with them now and then."""

    first: int = 20000
    last: int = 32767

    def __contains__(self, port: object) -> bool:
        return isinstance(port, int) and self.first <= port <= self.last

    def __len__(self) -> int:
        return self.last - self.first + 1
