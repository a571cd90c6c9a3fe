"""What the plan of a game sees, gathered from the shared caches."""

from __future__ import annotations

import msgspec

from edgewise.api.games import Fleet, FleetSpec, GameType
from edgewise.gameservers import names
from edgewise.gameservers.gametype.observed import FleetSeen, GameSeen
from edgewise.gameservers.gametype.plan import fleet_names
from edgewise.gameservers.outgoing import OUTGOING_SINCE, outgoing_of
from edgewise.gameservers.versions import version_of
from edgewise.kube.objects import Key
from edgewise.runtime.conditions import READY
from edgewise.runtime.watches import CacheView
from edgewise.workloads.deadlines import moment


def by_game(fleet: Fleet) -> str | None:
    """The uid of the game that a fleet was made for: a successor of that name has another."""
    for owner in fleet.metadata.owner_references:
        if owner.controller and owner.kind == GameType.KIND.kind:
            return owner.uid
    return None


def observe(game: GameType, cache: CacheView) -> GameSeen:
    fleets = cache[Fleet].by(by_game, game.metadata.uid)
    version = version_of(game.spec.fleet_spec.spec)
    namespace, name = game.metadata.namespace, game.metadata.name
    return GameSeen(
        game=game,
        version=version,
        taken=frozenset(
            each
            for each in fleet_names(name, version)
            if cache[Fleet].get(Key(namespace, each)) is not None
        ),
        fleets=tuple(sorted((fleet_seen(each, game) for each in fleets), key=lambda f: f.name)),
    )


def fleet_seen(fleet: Fleet, game: GameType) -> FleetSeen:
    meta, status = fleet.metadata, fleet.status
    ready, starting = status.ready or 0, status.starting or 0
    busy = (status.allocated or 0) + (status.reserved or 0)
    wanted = fleet.spec.scaling.replicas
    return FleetSeen(
        name=meta.name,
        version=version_of(fleet.spec.spec),
        created=moment(meta.creation_timestamp) or 0.0,
        wanted=wanted,
        ready=ready,
        starting=starting,
        busy=busy,
        # What is there, and before there is a status, what was ordered. A server that ends may
        # still have its match, so that what it is counted as cannot be added up.
        servers=max(
            (status.replicas or 0) + (status.draining or 0),
            0 if status.observed_generation else wanted,
        ),
        deleting=meta.deleting,
        settled=status.observed_generation >= meta.generation,
        alike=wanted_spec(game, fleet) == fleet.spec,
        outgoing=outgoing_of(meta.annotations),
        since=moment(meta.annotations.get(OUTGOING_SINCE)),
        trouble=trouble_of(fleet),
    )


def wanted_spec(game: GameType, fleet: Fleet | None = None, replicas: int = 0) -> FleetSpec:
    """What the game says that a fleet is; the number is that of the fleet, if one is given."""
    spec = game.spec.fleet_spec
    number = fleet.spec.scaling.replicas if fleet is not None else replicas
    scaling = msgspec.structs.replace(spec.scaling, replicas=number)
    return msgspec.structs.replace(spec, scaling=scaling)


def trouble_of(fleet: Fleet) -> str:
    """Why servers of a fleet are not ready, as its own status says."""
    if fleet.status.failures is not None and fleet.status.failures.message:
        return fleet.status.failures.message
    for condition in fleet.status.conditions:
        if condition.type == READY and condition.status != "True":
            return condition.message
    return ""


def labels_of(game: GameType) -> dict[str, str]:
    """The author's own, and the one that people select a game's fleets and servers by."""
    return {**game.metadata.labels, names.TYPE: game.metadata.name}
