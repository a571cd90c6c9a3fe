"""The domains that the server serves: one explicit tuple, and the only list of them here."""

from __future__ import annotations

from edgewise.server.hub_half import Halves
from edgewise.server.routes.games.half import GAMES
from edgewise.server.routes.placement.half import PLACEMENT
from edgewise.server.routes.sessions.half import SESSIONS

HALVES: Halves = (SESSIONS, GAMES, PLACEMENT)
