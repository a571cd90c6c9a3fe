"""The parts of paths and queries, checked at the edge."""

from __future__ import annotations

from typing import Annotated

from litestar.params import PathParameter, QueryParameter

from edgewise.gameservers.allocation.request import END, MATCH_ID

NAME = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
NAME_RULE = "must have at most 63 small letters, digits and dashes, and begin and end with no dash"

GameName = Annotated[
    str,
    PathParameter(
        min_length=1,
        max_length=63,
        pattern=f"^{NAME}{END}",
        description="A GameType, or a Fleet where there is no GameType of that name.",
    ),
]
MatchId = Annotated[
    str,
    PathParameter(
        pattern=f"^{MATCH_ID}{END}",
        description="The match, as the caller named it.",
    ),
]
ObjectName = Annotated[
    str,
    PathParameter(
        min_length=1, max_length=63, pattern=f"^{NAME}{END}", description="The object's name."
    ),
]
Uid = Annotated[
    str | None,
    QueryParameter(
        max_length=64,
        description="Only if it is still this allocation, as the answer that gave the server "
        "called it.",
    ),
]
WaitSeconds = Annotated[
    float,
    QueryParameter(
        name="wait",
        ge=0,
        le=60,
        description="Answer when the match has a server, or after so many seconds as it is then.",
    ),
]
Force = Annotated[
    bool, QueryParameter(description="End the game without asking it. A permission of its own.")
]
