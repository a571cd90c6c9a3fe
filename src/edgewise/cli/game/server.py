"""Allocation by a server's API: exactly one server for each match, whoever else asks."""

from __future__ import annotations

import math
import os

from edgewise.cli.game.cluster import GameError, NoneFree
from edgewise.cli.game.views import ServerView
from edgewise.client.errors import EdgewiseError, NotReady
from edgewise.client.games.match import MatchRequest
from edgewise.client.games.match import allocate as allocated
from edgewise.client.transport import Transport

TOKEN = "EDGEWISE_TOKEN"  # noqa: S105 - the name of a variable


async def allocate(url: str, game: str, match: str, wait: float) -> ServerView:
    token = os.environ.get(TOKEN, "")
    if not token:
        raise GameError(f"the server needs to know who you are: put an API token into {TOKEN}")
    try:
        async with Transport(url, token) as server:
            wish = MatchRequest(wait=math.ceil(wait))
            found = await allocated(server, game, match, wish, patience=0.0)
    except NotReady:
        raise NoneFree(f"no server of {game} became free for {match} within {wait:g} s") from None
    except EdgewiseError as error:
        raise GameError(str(error)) from error
    return ServerView(
        name=found.server or "",
        game=game,
        fleet="",
        state="Allocated",
        address=found.address or "",
        ports={name: port.port for name, port in found.ports.items()},
        node=found.node or "",
        version=found.version or "",
        match=match,
        created=None,
    )
