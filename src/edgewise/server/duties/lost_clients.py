"""Clients that fall silent are lost, and lost ones that do not come back have left."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from edgewise.api.fleet import BindingState, ClientBinding
from edgewise.server.bindings import Bindings, Taken
from edgewise.server.duties.several import for_each
from edgewise.server.fleet import Fleet
from edgewise.server.joining import Joining
from edgewise.server.metrics import LOST
from edgewise.server.presence import Presence

# A lost client's pods go after its template's timeout; its binding a moment later.
MARGIN_SECONDS = 5.0
_log = logging.getLogger(__name__)


class LostClients:
    def __init__(
        self,
        fleet: Fleet,
        joining: Joining,
        bindings: Bindings,
        presence: Presence,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fleet = fleet
        self._joining = joining
        self._bindings = bindings
        self._presence = presence
        self._clock = clock

    async def look(self) -> None:
        silent, over = [], []
        for binding in self._fleet.hub.bindings:
            match binding.spec.state:
                case BindingState.SEATED if self._is_silent(binding):
                    silent.append(binding)
                case BindingState.LOST if self._is_over(binding):
                    over.append(binding)
        await for_each(silent, self._lose)
        await for_each(over, self._end)
        await self._presence.sweep()

    def _is_silent(self, binding: ClientBinding) -> bool:
        lease = binding.spec.lease_seconds
        return lease > 0 and self._presence.silent_for(binding.metadata.name) > lease

    def _is_over(self, binding: ClientBinding) -> bool:
        session = self._fleet.session_of(binding)
        template = self._fleet.hub.template(session.spec.template) if session else None
        timeout = template.spec.timeout_seconds if template is not None else 0
        end = binding.spec.since.timestamp() + timeout + MARGIN_SECONDS
        return end < self._clock()

    async def _lose(self, binding: ClientBinding) -> None:
        session = self._fleet.session_of(binding)
        if session is not None:
            _log.info("%s of %s fell silent", binding.spec.client, binding.spec.session)
            await self._joining.disconnect(session, binding.spec.client)
            LOST.inc()

    async def _end(self, binding: ClientBinding) -> None:
        try:
            await self._bindings.remove(binding)
        except Taken:
            return  # it came back
        _log.info("%s of %s did not come back", binding.spec.client, binding.spec.session)
        # The repair takes it out of its cluster.
