"""Clients that fall silent are disconnected, and those that do not come back have left."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from edgewise.api.global_sessions import BindingState, ClientBinding
from edgewise.sessions.hub.bindings import Bindings, BindingTaken
from edgewise.sessions.hub.duties.several import for_each
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.joining import Joining
from edgewise.sessions.hub.metrics import DISCONNECTED
from edgewise.sessions.hub.presence import Presence

# A disconnected client's pods go after its template's timeout; its binding a moment later.
MARGIN_SECONDS = 5.0
_log = logging.getLogger(__name__)


class DisconnectedClients:
    def __init__(
        self,
        hub_view: HubView,
        joining: Joining,
        bindings: Bindings,
        presence: Presence,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._hub_view = hub_view
        self._joining = joining
        self._bindings = bindings
        self._presence = presence
        self._clock = clock

    async def look(self) -> None:
        silent, over = [], []
        for binding in self._hub_view.hub.bindings:
            match binding.spec.state:
                case BindingState.SEATED if self._is_silent(binding):
                    silent.append(binding)
                case BindingState.DISCONNECTED if self._is_over(binding):
                    over.append(binding)
        await for_each(silent, self._lose)
        await for_each(over, self._end)
        await self._presence.sweep()

    def _is_silent(self, binding: ClientBinding) -> bool:
        lease = binding.spec.lease_seconds
        return lease > 0 and self._presence.silent_for(binding.metadata.name) > lease

    def _is_over(self, binding: ClientBinding) -> bool:
        session = self._hub_view.session_of(binding)
        template = self._hub_view.hub.template(session.spec.template) if session else None
        timeout = template.spec.timeout_seconds if template is not None else 0
        end = binding.spec.since.timestamp() + timeout + MARGIN_SECONDS
        return end < self._clock()

    async def _lose(self, binding: ClientBinding) -> None:
        session = self._hub_view.session_of(binding)
        if session is not None:
            _log.info("%s of %s fell silent", binding.spec.client, binding.spec.session)
            await self._joining.disconnect(session, binding.spec.client)
            DISCONNECTED.inc()

    async def _end(self, binding: ClientBinding) -> None:
        try:
            await self._bindings.remove(binding)
        except BindingTaken:
            return  # it came back
        _log.info("%s of %s did not come back", binding.spec.client, binding.spec.session)
        # The repair takes it out of its cluster.
