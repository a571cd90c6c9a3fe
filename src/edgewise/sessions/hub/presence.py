"""When each client was last heard from: the holders are the bindings of clients."""

from __future__ import annotations

import time
from collections.abc import Callable

from edgewise.api.global_sessions import BindingState, ClientBinding
from edgewise.runtime.heartbeats.presence import Presence as AnyPresence
from edgewise.sessions.hub.records import HEARTBEATS_LABEL, Hub


class Presence(AnyPresence):
    def __init__(
        self, hub: Hub, *, replica: str = "", monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(
            hub.link,
            hub.namespace,
            hub.heartbeats,
            label=HEARTBEATS_LABEL,
            replica=replica,
            monotonic=monotonic,
        )
        hub.bindings.subscribe(self._binding_changed)

    def _binding_changed(
        self, old: ClientBinding | None, new: ClientBinding | None, _: bool
    ) -> None:
        if new is None:
            if old is not None:
                self.forget(old.metadata.name)
            return
        self.know(new.metadata.name)
        if new.spec.state is BindingState.SEATED and (
            old is None or old.spec.state is not BindingState.SEATED
        ):
            self.begin(new.metadata.name)
