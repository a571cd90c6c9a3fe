"""What every route needs: the replica, and whoever tells callers apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Request

from edgewise.api.fleet import ClientBinding, FleetSession
from edgewise.kube.errors import KubeError
from edgewise.runtime.cache import number
from edgewise.server.errors import HubUnreachable, NotThere
from edgewise.server.http.doorway import Doorway, admit, check_not_removed, principal_of
from edgewise.server.identity.permissions import Action
from edgewise.server.replica import Replica


class Server(msgspec.Struct, frozen=True):
    replica: Replica
    doorway: Doorway
    clock: Callable[[], float] = time.time

    async def session(
        self, request: Request[Any, Any, Any], action: Action, name: str, client: str = ""
    ) -> FleetSession:
        """The session that a path names, if the caller may do `action` to it."""
        principal = principal_of(request)
        session = await self.replica.lifecycle.find(name)
        found = admit(principal, action, name, session, client)
        check_not_removed(principal, found)
        return found

    async def binding(self, session: FleetSession, client: str) -> ClientBinding:
        """A client's binding, also if another replica has only just made it."""
        known = self.replica.hub.binding(session, client)
        if known is None and self.replica.hub.mirror.ready:
            try:
                known = await self.replica.bindings.read(session, client)
            except KubeError as error:
                raise HubUnreachable from error
        if known is None:
            raise NotThere(f"{client} is not in {session.metadata.name}")
        return known

    def newest(self, binding: ClientBinding) -> ClientBinding | None:
        """A binding as far as this replica knows it by now; None if it is gone."""
        cache = self.replica.hub.bindings
        at = number(binding.metadata.resource_version)
        shown = cache.get(binding.key)
        if shown is not None and number(shown.metadata.resource_version) >= at:
            return shown
        if cache.revision >= at and self.replica.hub.mirror.ready and shown is None:
            return None
        return binding
