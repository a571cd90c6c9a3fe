"""Clients of a cluster that is lost are moved to the next best place, where they may be."""

from __future__ import annotations

import logging
from functools import partial

import msgspec

from edgewise.api.fleet import BindingState, ClientBinding, Failover
from edgewise.server.bindings import Bindings, Taken
from edgewise.server.duties.several import for_each
from edgewise.server.fleet import Fleet
from edgewise.server.hub import by_cluster
from edgewise.server.joining import Joining, NotHere
from edgewise.server.metrics import MOVES
from edgewise.server.placement import rank

_log = logging.getLogger(__name__)


class LostClusters:
    def __init__(self, fleet: Fleet, joining: Joining, bindings: Bindings) -> None:
        self._fleet = fleet
        self._hub = fleet.hub
        self._joining = joining
        self._bindings = bindings

    async def look(self) -> None:
        registered = {cluster.metadata.name for cluster in self._hub.clusters}
        for cluster, why in self._lost(registered):
            bindings = [
                binding
                for binding in self._hub.bindings.by(by_cluster, cluster)
                if self._may_move(binding, returning=cluster in registered)
            ]
            if bindings:
                _log.warning("%s %s: moving %d clients", cluster, why, len(bindings))
                await for_each(bindings, partial(self._move, why))

    def _lost(self, registered: set[str]) -> list[tuple[str, str]]:
        """Clusters that have clients and cannot serve them, and why."""
        used = {binding.spec.cluster for binding in self._hub.bindings} - {""}
        gone = [(name, "is no longer a location") for name in sorted(used - registered)]
        return gone + [
            (member.name, member.mirror.trouble)
            for member in self._fleet.members.all()
            if member.lost and member.name in used & registered
        ]

    def _may_move(self, binding: ClientBinding, *, returning: bool) -> bool:
        session = self._fleet.session_of(binding)
        return (
            # Whoever is lost may have left: a move would say that they are there.
            binding.spec.state is BindingState.SEATED
            and session is not None
            and not session.metadata.deleting
            # To stay in a cluster that was taken out of the fleet is to be nowhere.
            and (session.spec.failover is Failover.MOVE or not returning)
        )

    async def _move(self, why: str, binding: ClientBinding) -> None:
        session = self._fleet.session_of(binding)
        if session is None:
            return
        left = binding.spec.cluster
        places = [place for place in self._fleet.places(session) if place.name != left]
        for choice in rank(places, binding.spec.latencies).choices:
            reason = f"{left} {why}; {choice.why}"
            try:
                await self._joining.move(
                    session, binding, msgspec.structs.replace(choice, why=reason)
                )
            except NotHere:
                current = await self._bindings.read(session, binding.spec.client)
                if current is None or current.spec.cluster != left:
                    return
                if current.spec.state is not BindingState.SEATED:
                    return
                binding = current
            except Taken:
                return  # the client has seen to it itself
            else:
                MOVES.labels(left).inc()
                return
