"""How errors of sessions are answered."""

from __future__ import annotations

from litestar.openapi.datastructures import ResponseSpec

from edgewise.server.http import problems
from edgewise.server.http.problems import ProblemKind
from edgewise.sessions.hub.errors import AlreadySeated, HubUnreachable, NoPlace
from edgewise.sessions.hub.lifecycle import SESSION_NAME, SESSION_NAME_RULE
from edgewise.sessions.steps.presence import CLIENT_ID, CLIENT_ID_RULE

PROBLEMS = (
    ProblemKind(AlreadySeated, 409, "already-seated", "The client sits elsewhere"),
    ProblemKind(HubUnreachable, 503, "hub-unreachable", "The hub's records cannot be changed now"),
    ProblemKind(NoPlace, 409, "no-place", "No location takes the client now"),
)

PATTERNS = {CLIENT_ID.pattern: CLIENT_ID_RULE, SESSION_NAME: SESSION_NAME_RULE}


def documented(*statuses: int) -> dict[int, ResponseSpec]:
    return problems.documented(*statuses, special=PROBLEMS)
