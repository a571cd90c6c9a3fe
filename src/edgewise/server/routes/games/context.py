"""What every route of games needs: their half, and whose match a path means."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request

from edgewise.api.games import Allocation
from edgewise.gameservers.allocation.revisions import MatchKey, match_of
from edgewise.gameservers.hub.half import GamesHalf
from edgewise.gameservers.hub.views import AllocationView, view
from edgewise.server.http.guard import principal_of
from edgewise.server.identity.permissions import Action, Reach
from edgewise.server.identity.principal import Principal

# What another replica has made shows here within some ten milliseconds.
UNSEEN_SECONDS = 0.3


class RouteContext(msgspec.Struct, frozen=True):
    half: GamesHalf

    def view(self, allocation: Allocation) -> AllocationView:
        return view(allocation, self.half.matches)

    async def match(
        self, request: Request[Any, Any, Any], action: Action, game: str, match: str
    ) -> MatchKey:
        """The match of that name that the caller means: its own, or the one it may reach."""
        self.half.games.check_ready()
        principal = principal_of(request)
        own = MatchKey(game, principal.application, match)
        found = self._known(principal, action, own)
        if found is None:
            await self.half.matches.until(
                own, lambda: bool(self.half.matches.of(own)), UNSEEN_SECONDS
            )
            found = self._known(principal, action, own)
        return found or own

    def _known(self, principal: Principal, action: Action, own: MatchKey) -> MatchKey | None:
        matches = self.half.matches
        if matches.of(own):
            return own
        if action.who.get(principal.role) is not Reach.ALL:
            return None
        keys = (match_of(each) for each in matches.named(own.game, own.match))
        return min((each for each in keys if each is not None), default=None)
