"""Games and their servers, as the command line shows them."""

from __future__ import annotations

import msgspec

from edgewise.api.games import Allocation, Fleet, GameType, Server
from edgewise.gameservers import names


class GameView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    kind: str
    wanted: int
    ready: int
    allocated: int
    phase: str
    fleet: str
    version: str
    created: str | None
    trouble: str = ""


class ServerView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    game: str
    fleet: str
    state: str
    address: str
    ports: dict[str, int]
    node: str
    version: str
    match: str
    created: str | None
    deadline: str | None = None
    why: str = ""


def view_game(game: GameType) -> GameView:
    status = game.status
    return GameView(
        name=game.metadata.name,
        kind="GameType",
        wanted=game.spec.fleet_spec.scaling.replicas,
        ready=status.ready or 0,
        allocated=status.allocated or 0,
        phase=status.phase,
        fleet=status.current_fleet_name,
        version=status.version,
        created=game.metadata.creation_timestamp,
        trouble=next((each.message for each in status.conditions if each.status == "False"), ""),
    )


def view_fleet(fleet: Fleet) -> GameView:
    status = fleet.status
    return GameView(
        name=fleet.metadata.name,
        kind="Fleet",
        wanted=fleet.spec.scaling.replicas,
        ready=status.ready or 0,
        allocated=status.allocated or 0,
        phase="",
        fleet=fleet.metadata.name,
        version=status.version,
        created=fleet.metadata.creation_timestamp,
        trouble=next(
            (each.message for each in status.conditions if each.status == "False" and each.message),
            "",
        ),
    )


def view_server(server: Server, allocation: Allocation | None) -> ServerView:
    meta, status = server.metadata, server.status
    taken = allocation is not None and allocation.spec.server_uid == meta.uid
    match = allocation.spec.match if taken and allocation is not None else ""
    if taken and allocation is not None and allocation.spec.retired:
        match = "(retired)"
    asked = status.shutdown
    return ServerView(
        name=meta.name,
        game=meta.labels.get(names.TYPE, ""),
        fleet=meta.labels.get(names.FLEET, ""),
        state=status.state or "Pending",
        address=status.address,
        ports={each.name: each.port for each in status.ports},
        node=status.node,
        version=status.version,
        match=match,
        created=meta.creation_timestamp,
        deadline=asked.deadline if asked is not None else None,
        why=asked.why if asked is not None else "",
    )
