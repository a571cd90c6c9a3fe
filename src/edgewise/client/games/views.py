"""What the server answers about allocations."""

from __future__ import annotations

import msgspec


class GamePort(msgspec.Struct, frozen=True):
    port: int
    protocol: str = ""


class Allocation(msgspec.Struct, frozen=True, rename="camel"):
    """The server of a match, or its place in the line."""

    game: str
    match: str
    state: str
    uid: str
    server: str | None = None
    address: str | None = None
    ports: dict[str, GamePort] = {}
    node: str | None = None
    version: str | None = None
    players: list[str] = []
    lease: int = 0
    place: int | None = None
    until: str | None = None

    def endpoint(self, port: str = "") -> tuple[str, int]:
        """Host and number of a port, by its name; without one, of the only port."""
        if not port and len(self.ports) == 1:
            port = next(iter(self.ports))
        if self.address is None or port not in self.ports:
            known = ", ".join(sorted(self.ports)) or "none"
            raise KeyError(f"{self.server} has no port {port!r}; it has: {known}")
        return self.address, self.ports[port].port


class AllocationPage(msgspec.Struct, frozen=True):
    items: list[Allocation]
    next: str | None = None
