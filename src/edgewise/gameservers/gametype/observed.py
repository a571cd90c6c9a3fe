"""What the plan of a game sees, as values."""

from __future__ import annotations

import msgspec

from edgewise.api.games import GameType
from edgewise.gameservers.outgoing import Outgoing


class FleetSeen(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    version: str  # of what it holds now
    created: float
    wanted: int
    ready: int = 0
    starting: int = 0
    busy: int = 0  # allocated or reserved
    servers: int = 0  # all that are there, whatever their state
    deleting: bool = False
    settled: bool = True  # its status is about its newest spec
    alike: bool = True  # all but the number is as the game says
    outgoing: Outgoing = Outgoing.NO
    since: float | None = None  # when it began to go
    trouble: str = ""  # why its servers are not ready

    @property
    def idle(self) -> int:
        return self.ready + self.starting


class GameSeen(msgspec.Struct, frozen=True, kw_only=True):
    game: GameType
    version: str
    fleets: tuple[FleetSeen, ...] = ()
    taken: frozenset[str] = frozenset()  # names that a new fleet could have, but for others
