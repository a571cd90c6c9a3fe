"""Gathers what the plan of a fleet needs from the shared caches."""

from __future__ import annotations

from edgewise.api.games import (
    Allocation,
    Fleet,
    PortPolicy,
    Server,
    ServerState,
    ServerStatus,
)
from edgewise.gameservers import names
from edgewise.gameservers.fleet.plan import FleetObserved, ListSeen, ServerSeen
from edgewise.gameservers.retirement import fleet_of_list, hold_of, over
from edgewise.gameservers.versions import version_of
from edgewise.kube.kinds.core import Namespace, Node
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.watches import CacheView

LONGEST_NUMBER = 9  # digits


def observe_fleet(fleet: Fleet, cache: CacheView, numbers: tuple[int, int]) -> FleetObserved:
    namespace = cache[Namespace].get(Key("", fleet.metadata.namespace))
    allocations = cache[Allocation]
    return FleetObserved(
        fleet=fleet,
        servers=[see_server(each, allocations) for each in cache[Server].owned_by(fleet)],
        version=fleet.metadata.labels.get(names.VERSION) or version_of(fleet.spec.spec),
        numbers=numbers,
        namespace_ends=namespace is not None and namespace.metadata.deleting,
        nodes=_nodes_of_their_own(fleet, cache[Node]),
        lists=[
            ListSeen(name=each.metadata.name, uid=each.metadata.uid, over=over(each, cache[Server]))
            for each in allocations.by(fleet_of_list, fleet.key)
        ],
    )


def _nodes_of_their_own(fleet: Fleet, nodes: Cache[Node]) -> int | None:
    if all(each.policy is not PortPolicy.STATIC for each in fleet.spec.spec.ports):
        return None
    return sum(not each.spec.unschedulable for each in nodes)


def see_server(server: Server, allocations: Cache[Allocation]) -> ServerSeen:
    meta, status = server.metadata, server.status
    hold = hold_of(server, allocations)
    number = meta.labels.get(names.NUMBER, "")
    game = status.game
    return ServerSeen(
        name=meta.name,
        uid=meta.uid,
        # Whoever may label a Server must not use the numbers up.
        number=int(number) if number.isdecimal() and len(number) <= LONGEST_NUMBER else -1,
        version=meta.labels.get(names.VERSION, ""),
        state=status.state,
        deleting=meta.deleting,
        created=meta.creation_timestamp or "",
        allocated=hold.match is not None or bool(game and game.allocated),
        retired=hold.retired,
        allowed=bool(status.allowed and status.allowed.value),
        node=status.node,
        priority=server.spec.deletion_priority,
        operation=server.spec.operation,
        marked=names.OVERFLOW in meta.labels,
        trouble=_trouble(status) if status.state == ServerState.UNHEALTHY else "",
    )


def _trouble(status: ServerStatus) -> str:
    return next((each.message for each in status.conditions if each.status == "False"), "")
