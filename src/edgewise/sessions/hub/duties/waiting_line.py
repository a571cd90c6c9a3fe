"""The queue for full locations is served as soon as there is room, and nobody waits for ever."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import msgspec

from edgewise.api.global_sessions import ClientBinding
from edgewise.kube.errors import KubeError
from edgewise.kube.objects import Key
from edgewise.runtime.errors import ServiceError
from edgewise.sessions.hub.bindings import Bindings, BindingTaken
from edgewise.sessions.hub.choosing.queueing import plan_queue
from edgewise.sessions.hub.choosing.ranking import Choice
from edgewise.sessions.hub.errors import HubUnreachable
from edgewise.sessions.hub.hub_view import HubView
from edgewise.sessions.hub.joining import Joining, NotHere

_log = logging.getLogger(__name__)


class WaitingLine:
    def __init__(
        self,
        hub_view: HubView,
        joining: Joining,
        bindings: Bindings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._hub_view = hub_view
        self._joining = joining
        self._bindings = bindings
        self._clock = clock

    async def look(self) -> None:
        queue = self._hub_view.queue()
        if not queue:
            return
        # The queue is what is being served: it must not stand in its own way.
        places = [msgspec.structs.replace(place, queued=0) for place in self._hub_view.places()]
        plan = plan_queue(queue, places, self._clock())
        for name in plan.expire:
            await self._give_up(name)
        for name, choice in plan.admit.items():
            await self._admit(name, choice)

    async def _give_up(self, name: str) -> None:
        binding = self._binding(name)
        if binding is not None:
            try:
                await self._bindings.remove(binding)
            except BindingTaken:
                return
            _log.info("%s of %s waited in vain", binding.spec.client, binding.spec.session)

    async def _admit(self, name: str, choice: Choice) -> None:
        binding = self._binding(name)
        session = self._hub_view.session_of(binding) if binding is not None else None
        if binding is None or session is None or session.metadata.deleting:
            return
        try:
            await self._joining.move(session, binding, choice, only=binding.spec.only)
        except (BindingTaken, NotHere) as error:
            _log.debug("%s goes on waiting: %s", binding.spec.client, error)
        except HubUnreachable:
            raise
        except (ServiceError, KubeError) as error:
            # Nobody else waits because one cannot be seated; this one has waited in vain.
            _log.warning("%s cannot be seated: %s", binding.spec.client, error)
            await self._give_up(name)

    def _binding(self, name: str) -> ClientBinding | None:
        hub = self._hub_view.hub
        return hub.bindings.get(Key(hub.namespace, name))
