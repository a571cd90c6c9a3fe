"""Clients of a cluster that is lost are moved to the next best place, where they may be."""

from __future__ import annotations

import logging
from functools import partial

import msgspec

from edgewise.api.global_sessions import BindingState, ClientBinding, Failover
from edgewise.sessions.hub.bindings import Bindings
from edgewise.sessions.hub.choosing.ranking import rank
from edgewise.sessions.hub.duties.moving import move_on
from edgewise.sessions.hub.duties.several import for_each
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.joining import Joining
from edgewise.sessions.hub.metrics import MOVES
from edgewise.sessions.hub.records import by_location

_log = logging.getLogger(__name__)


class LostClusters:
    def __init__(self, hub_view: HubView, joining: Joining, bindings: Bindings) -> None:
        self._hub_view = hub_view
        self._hub = hub_view.hub
        self._joining = joining
        self._bindings = bindings

    async def look(self) -> None:
        there = {each.name for each in self._hub_view.seen.all() if each.registered}
        for location, why in self._lost(there):
            bindings = [
                binding
                for binding in self._hub.bindings.by(by_location, location)
                if self._may_move(binding, returning=location in there)
            ]
            if bindings:
                _log.warning("%s %s: moving %d clients", location, why, len(bindings))
                await for_each(bindings, partial(self._move, why))

    def _lost(self, there: set[str]) -> list[tuple[str, str]]:
        """Locations that have clients and cannot serve them, and why."""
        used = {binding.spec.location for binding in self._hub.bindings} - {""}
        gone = [(name, "is no longer a location") for name in sorted(used - there)]
        return gone + [
            (member.name, member.link.trouble)
            for member in self._hub_view.members.all()
            if member.lost and member.name in used & there
        ]

    def _may_move(self, binding: ClientBinding, *, returning: bool) -> bool:
        session = self._hub_view.session_of(binding)
        return (
            # Whoever is disconnected may have left: a move would say that they are there.
            binding.spec.state is BindingState.SEATED
            and session is not None
            and not session.metadata.deleting
            # To stay in a cluster that was taken out is to be nowhere.
            and (session.spec.failover is Failover.MOVE or not returning)
        )

    async def _move(self, why: str, binding: ClientBinding) -> None:
        session = self._hub_view.session_of(binding)
        if session is None:
            return
        left = binding.spec.location
        # Who was served is not sent to find out whether a degraded place works again.
        places = [
            msgspec.structs.replace(place, trial=False)
            for place in self._hub_view.places(session)
            if place.name != left
        ]
        choices = rank(places, binding.spec.latencies).choices
        if await move_on(
            self._joining, self._bindings, session, binding, choices, because=f"{left} {why}"
        ):
            MOVES.labels(left).inc()
