"""The parts of paths and queries, checked at the edge."""

from __future__ import annotations

from typing import Annotated

from litestar.params import PathParameter, QueryParameter

from edgewise.sessions.hub.lifecycle import SESSION_NAME
from edgewise.sessions.steps.presence import CLIENT_ID

# `$` also matches before a line feed at the end; nothing may follow, not even that.
_END = r"(?![\s\S])"

SessionName = Annotated[
    str,
    PathParameter(
        min_length=1,
        max_length=63,
        pattern=f"^{SESSION_NAME}{_END}",
        description="The session's name.",
    ),
]
ClientId = Annotated[
    str,
    PathParameter(
        min_length=1,
        max_length=63,
        pattern=f"^{CLIENT_ID.pattern}{_END}",
        description="The client's id, chosen by the application.",
    ),
]
LocationName = Annotated[
    str,
    PathParameter(
        min_length=1,
        max_length=63,
        pattern=f"^{SESSION_NAME}{_END}",
        description="The location's name.",
    ),
]
WaitSeconds = Annotated[
    float,
    QueryParameter(
        name="wait",
        ge=0,
        le=60,
        description="Answer when the client is ready, or after so many seconds as it is then.",
    ),
]
