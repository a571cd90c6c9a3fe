"""Why a server is still there, and what would make it go. Pure: objects in, sentences out."""

from __future__ import annotations

from datetime import datetime

import msgspec

from edgewise.api.games import (
    Allocation,
    Fleet,
    GameType,
    Idle,
    Operation,
    Server,
    ServerState,
)
from edgewise.cli.session.text import age
from edgewise.gameservers import names
from edgewise.gameservers.outgoing import Outgoing, outgoing_of
from edgewise.workloads.deadlines import moment


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """A server, and what has a say in whether it stays."""

    server: Server
    allocation: Allocation | None = None
    retired: bool = False  # by its Allocation, or by a list of its fleet
    fleet: Fleet | None = None
    game: GameType | None = None
    pod: bool = True  # its pod is there


def explain(around: Around, now: datetime) -> list[str]:
    server, status = around.server, around.server.status
    name, state = server.metadata.name, status.state or ServerState.PENDING
    for_long = f"has been {state} for {age(status.since, now)}" if status.since else f"is {state}"
    lines = [f"{name} {for_long}."]
    if status.shutdown is not None or server.metadata.deleting:
        return [*lines, *_asked(around, now)]
    taken = _taken(around)
    return [*lines, *taken, *_staying(around, taken=bool(taken))]


def _asked(around: Around, now: datetime) -> list[str]:
    """It is to go: by whom, and what it still waits for."""
    server, asked = around.server, around.server.status.shutdown
    lines = []
    if asked is not None:
        lines.append(f"It is asked to end: {_sentence(asked.why, around)}.")
    else:
        lines.append("It is deleted, and the operator has not asked its game yet.")
    if not around.pod:
        lines.append("Its pod is gone; the operator takes the Server away next.")
        return lines
    lines += _taken(around)
    allowed = server.status.allowed
    if server.spec.allow_force_delete:
        lines.append("allowForceDelete is set: the operator does not wait for the game.")
    elif allowed is not None and allowed.value:
        quiet = server.spec.deletion.stabilization
        lines.append(f"Its game has allowed it for {age(allowed.since, now)}.")
        if quiet != "0s":
            lines.append(f"It has to allow it for {quiet} without a break.")
    else:
        lines.append("Its game has not allowed it yet (POST /allow_delete).")
    deadline = moment(asked.deadline) if asked is not None else None
    if deadline is not None and asked is not None:
        left = deadline - now.timestamp()
        when = f"in {left:.0f} s, " if left > 0 else "which is over, "
        lines.append(f"Whatever the game says, its time ends {when}at {asked.deadline}.")
    for each in server.metadata.finalizers:
        if each != names.SERVER_FINALIZER:
            lines.append(f"The finalizer {each} is not Edgewise's: who put it there holds it.")
    return lines


def _taken(around: Around) -> list[str]:
    allocation, server = around.allocation, around.server
    if around.retired:
        return ["The operator has taken it out of the fleet: no match can get it."]
    if allocation is None or allocation.spec.server_uid != server.metadata.uid:
        game = server.status.game
        if game is not None and game.allocated:
            return ["Its game has taken itself (POST /allocate)."]
        return []
    match = f"match {allocation.spec.match}" if allocation.spec.match else "a match"
    holder = f" by {allocation.spec.holder}" if allocation.spec.holder else ""
    lease = allocation.spec.lease_seconds
    words = f"It is allocated to {match}{holder}"
    words += f", with a lease of {lease} s." if lease else ", until that is released."
    return [words]


def _staying(around: Around, *, taken: bool) -> list[str]:
    """Nobody asked it to go: who wants it there?"""
    server, fleet, game = around.server, around.fleet, around.game
    lines = []
    if server.spec.operation is Operation.MAINTAIN:
        lines.append("spec.operation is Maintain: it stays, and no match gets it.")
    if fleet is None:
        lines.append("It belongs to no fleet: it stays until somebody deletes it.")
        return lines
    wanted = fleet.spec.scaling.replicas
    outgoing = outgoing_of(fleet.metadata.annotations)
    lines += _of_old_version(outgoing, game)
    if outgoing is Outgoing.NO:
        have = fleet.status.replicas or 0
        servers = "1 server" if wanted == 1 else f"{wanted} servers"
        lines.append(f"Its fleet {fleet.metadata.name} wants {servers} and has {have}.")
    if server.spec.deletion.idle is Idle.ASK and not taken:
        lines.append("When it has to go, its game is asked first (deletion.idle is Ask).")
    return lines


def _of_old_version(outgoing: Outgoing, game: GameType | None) -> list[str]:
    if outgoing is Outgoing.NO:
        return []
    current = game.status.current_fleet_name if game is not None else "another fleet"
    lines = [f"It is of an older version: new matches go to {current}."]
    rollout = game.spec.rollout if game is not None else None
    if outgoing is Outgoing.IDLE and rollout is not None:
        if rollout.soft_deadline is not None:
            lines.append(
                f"It is asked to end {rollout.soft_deadline} after its fleet was replaced."
            )
        else:
            lines.append("It is kept until enough servers of the new version are ready.")
    if rollout is not None and rollout.hard_deadline is not None:
        lines.append(f"It is ended {rollout.hard_deadline} after its fleet was replaced.")
    return lines


_WORDS = {
    "Deleted": "it was deleted",
    "Retired": "spec.operation is Retire",
    "Killed": "spec.operation is Kill",
    "GameShutdown": "its game wants to end",
    "Unhealthy": "its game does not say any more that it is well",
    "NamespaceDeleted": "its namespace is being deleted",
}


def _sentence(why: str, around: Around) -> str:
    words = _WORDS.get(why, why or "no reason is given")
    if why == "Deleted" and around.fleet is not None:
        if outgoing_of(around.fleet.metadata.annotations) is not Outgoing.NO:
            return "a new version replaces it"
        if around.fleet.metadata.deleting:
            return "its fleet is being deleted"
        return "it was deleted, or its fleet shrank"
    return words
