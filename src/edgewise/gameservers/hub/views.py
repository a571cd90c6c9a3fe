"""What callers are told about an allocation."""

from __future__ import annotations

import msgspec

from edgewise.api.games import Allocation
from edgewise.gameservers.allocation.matches import Matches


class PortView(msgspec.Struct, frozen=True):
    port: int
    protocol: str = ""


class AllocationView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The server of a match, or its place in the line."""

    game: str
    match: str
    state: str
    """allocated or queued"""
    uid: str
    """Of this allocation: a release or a heartbeat that names it never means another one."""
    server: str | None = None
    address: str | None = None
    ports: dict[str, PortView] = {}
    node: str | None = None
    version: str | None = None
    players: list[str] = []
    lease: int = 0
    place: int | None = None
    """In the line; 1 is next."""
    until: str | None = None
    """When it stops to wait."""


def view(allocation: Allocation, matches: Matches) -> AllocationView:
    spec = allocation.spec
    if spec.waiting is not None:
        return AllocationView(
            game=spec.game,
            match=spec.match,
            state="queued",
            uid=allocation.metadata.uid,
            players=spec.players,
            lease=spec.lease_seconds,
            place=matches.place(allocation) or None,
            until=spec.waiting.until,
        )
    server = matches.server_of(allocation)
    status = server.status if server is not None else None
    return AllocationView(
        game=spec.game,
        match=spec.match,
        state="allocated",
        uid=allocation.metadata.uid,
        server=allocation.metadata.name,
        address=(status.address or None) if status is not None else None,
        ports={each.name: PortView(each.port, each.protocol) for each in status.ports}
        if status is not None
        else {},
        node=(status.node or None) if status is not None else None,
        version=(status.version or None) if status is not None else None,
        players=spec.players,
        lease=spec.lease_seconds,
    )
