"""ShutdownReason a game is asked to end, and when its pod may be deleted. Pure.

Whatever wants a server gone only asks. The pod is deleted when the game allows it, when its time
is over, or when nothing is lost by it.
"""

from __future__ import annotations

import msgspec

from edgewise.api.durations import seconds_of
from edgewise.api.game_servers import ShutdownReason
from edgewise.api.games import GameSaid, Idle, Operation
from edgewise.gameservers.server.observed import Observed, PodFacts
from edgewise.workloads.deadlines import kept, moment


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """That a game is asked to end, by whom and until when."""

    why: str
    text: str
    since: float
    deadline: float
    broken: bool = False  # the server is not well, so another one takes its place


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the pod may be deleted now, and if not, when to look again."""

    why: str = ""  # empty: not yet
    later: float | None = None


def said_by(seen: Observed) -> GameSaid:
    """What the game of this very pod has said."""
    said = seen.server.status.game
    if said is None or seen.pod is None or said.pod != seen.pod.uid:
        return GameSaid()
    return said


def asked(seen: Observed, now: float) -> Asked | None:
    found = reason(seen, now)
    if found is None:
        return None
    why, text, broken = found
    before = seen.server.status.shutdown
    period = seconds_of(seen.server.spec.timeout)
    since = (moment(before.since) if before else None) or now
    deadline = kept(before.deadline if before else None, period, now)
    return Asked(
        why=why,
        text=text,
        since=min(since, now),
        deadline=min(deadline, since + period),
        broken=broken,
    )


def reason(seen: Observed, now: float) -> tuple[ShutdownReason, str, bool] | None:  # noqa: PLR0911 - one each
    """One word, a sentence, and whether the server itself is broken."""
    server, pod, node = seen.server, seen.pod, seen.node
    said = said_by(seen)
    if seen.namespace_ends:
        return ShutdownReason.NAMESPACE_DELETED, "its namespace is being deleted", False
    if server.metadata.deleting:
        return ShutdownReason.DELETED, "the Server was deleted", False
    if server.spec.operation is Operation.KILL:
        return ShutdownReason.KILLED, "spec.operation is Kill", False
    if server.spec.operation is Operation.RETIRE:
        return ShutdownReason.RETIRED, "spec.operation is Retire", False
    if said.shutdown:
        return ShutdownReason.GAME_SHUTDOWN, "the game wants to end", False
    if said.healthy is False:
        return ShutdownReason.UNHEALTHY, "the game does not say any more that it is well", True
    if node.lost_since is not None and node.lost_since + server.spec.node_loss_seconds <= now:
        return ShutdownReason.NODE_LOST, f"its node {pod.node if pod else ''} does not answer", True
    if pod is not None and pod.evicted_by:
        return (
            ShutdownReason.NODE_TAINTED,
            f"its node {pod.node} has the taint {pod.evicted_by}",
            False,
        )
    if pod is not None and pod.disrupted:
        return ShutdownReason.DISRUPTED, pod.disrupted, False
    if node.cordoned:
        return (
            ShutdownReason.NODE_CORDONED,
            f"its node {pod.node if pod else ''} is cordoned",
            False,
        )
    return None


def permission(seen: Observed, pod: PodFacts, ask: Asked, now: float) -> Permission:  # noqa: PLR0911
    """Of a pod that has not ended."""
    spec, said, allowed = seen.server.spec, said_by(seen), seen.server.status.allowed
    if not pod.started:
        return Permission(why="the game has not begun")
    if said.shutdown:
        return Permission(why="the game wants to end")
    if spec.operation is Operation.KILL:
        return Permission(why="spec.operation is Kill")
    if spec.allow_force_delete:
        return Permission(why="spec.allowForceDelete is set")
    if not seen.allocated and spec.deletion.idle is Idle.ALLOW:
        return Permission(why="nobody plays on it")
    if ask.deadline <= now:
        return Permission(why=f"its timeout of {spec.timeout} is over")
    later = ask.deadline
    if said.pod and allowed is not None and allowed.value:
        since = moment(allowed.since)
        ends = (now if since is None else min(since, now)) + seconds_of(spec.deletion.stabilization)
        if ends <= now:
            return Permission(why="the game allows it")
        later = min(later, ends)
    return Permission(later=later)
