"""How errors of games are answered. What is only contention is never a 5xx."""

from __future__ import annotations

from litestar.openapi.datastructures import ResponseSpec

from edgewise.gameservers.allocation.errors import (
    AllocationGone,
    ClusterBusy,
    GamesUnreachable,
    NoServerFree,
)
from edgewise.gameservers.allocation.request import MATCH_ID, MATCH_RULE
from edgewise.server.http import problems
from edgewise.server.http.problems import ProblemKind
from edgewise.server.routes.games.parameters import NAME, NAME_RULE

PROBLEMS = (
    ProblemKind(NoServerFree, 429, "no-server-free", "Every server is taken now"),
    ProblemKind(ClusterBusy, 429, "cluster-busy", "The cluster asks to be asked less"),
    ProblemKind(AllocationGone, 410, "allocation-gone", "The match has lost its server"),
    ProblemKind(
        GamesUnreachable, 503, "games-unreachable", "The cluster of the games does not answer"
    ),
)

PATTERNS = {MATCH_ID: MATCH_RULE, NAME: NAME_RULE}


def documented(*statuses: int) -> dict[int, ResponseSpec]:
    return problems.documented(*statuses, special=PROBLEMS)
