"""The word that a server is Allocated waits while callers take servers.

The Allocation itself says that the server is taken, and the game is told of it from there. Its
status is for people: written at once, it would cost callers half of what the API server can do.
"""

from __future__ import annotations

import msgspec

from edgewise.api.games import Allocation, ServerState, ServerStatus
from edgewise.gameservers.server.plan import ServerPlan

# So long after the last creation of an Allocation nobody is taken to call.
QUIET_SECONDS = 0.25
# A server is shown as what it is after this long, however many call.
LONGEST_SECONDS = 5.0


class Callers:
    """When the last server was taken, as far as the cache has shown."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def took(self, now: float) -> None:
        self._last = now

    def quiet_at(self) -> float:
        return self._last + QUIET_SECONDS


def postponed(
    before: ServerStatus,
    plan: ServerPlan,
    allocation: Allocation | None,
    *,
    created: float | None,
    quiet_at: float,
    now: float,
) -> float | None:
    """Until when a plan waits that does nothing but say that a server is Allocated."""
    if allocation is None or created is None or plan.status is None:
        return None
    if before.state != ServerState.READY or plan.status.state != ServerState.ALLOCATED:
        return None
    if plan != ServerPlan(status=plan.status, deadline=plan.deadline):
        return None
    said = msgspec.structs.replace(plan.status, state=before.state, since=before.since)
    if said != before:
        return None
    until = min(quiet_at, created + LONGEST_SECONDS)
    return until if until > now else None
