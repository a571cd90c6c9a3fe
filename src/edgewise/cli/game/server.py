"""Allocation by a server's API: exactly one server for each match, whoever else asks."""

from __future__ import annotations

import os
from typing import Any

from edgewise.cli.game.cluster import GameError, NoneFree
from edgewise.cli.game.views import ServerView
from edgewise.client.errors import EdgewiseError
from edgewise.client.games.match import path_of
from edgewise.client.transport import Transport

TOKEN = "EDGEWISE_TOKEN"  # noqa: S105 - the name of a variable


async def allocate(url: str, game: str, match: str, wait: float) -> ServerView:
    token = os.environ.get(TOKEN, "")
    if not token:
        raise GameError(f"the server needs to know who you are: put an API token into {TOKEN}")
    body: dict[str, Any] = {"match": match}
    if wait:
        body["wait"] = int(wait)
    async with Transport(url, token) as server:
        try:
            found = await server.call("POST", path_of(game), dict[str, Any], body=body)
            if found["state"] == "queued":
                found = await server.call(
                    "GET",
                    path_of(game, match),
                    dict[str, Any],
                    query={"wait": min(60.0, wait)},
                )
        except EdgewiseError as error:
            raise GameError(str(error)) from error
    if found["state"] == "queued":
        raise NoneFree(f"no server of {game} is free; {match} waits at place {found.get('place')}")
    return ServerView(
        name=found["server"],
        game=game,
        fleet="",
        state="Allocated",
        address=found.get("address") or "",
        ports={name: port["port"] for name, port in found.get("ports", {}).items()},
        node=found.get("node") or "",
        version=found.get("version") or "",
        match=match,
        created=None,
    )
