"""What every route of sessions needs: their half of the hub, and who tells callers apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Request

from edgewise.api.global_sessions import ClientBinding, GlobalSession
from edgewise.kube.errors import KubeError
from edgewise.runtime.caching.cache import number
from edgewise.runtime.errors import NotThere
from edgewise.server.http.guard import Guard, principal_of
from edgewise.server.identity.hub_credentials import HubCredentials
from edgewise.server.identity.permissions import Action
from edgewise.server.routes.sessions.admitting import admit, check_not_removed
from edgewise.sessions.hub.errors import HubUnreachable
from edgewise.sessions.hub.half import SessionsHalf


class RouteContext(msgspec.Struct, frozen=True):
    half: SessionsHalf
    guard: Guard
    credentials: HubCredentials
    clock: Callable[[], float] = time.time

    async def session(
        self, request: Request[Any, Any, Any], action: Action, name: str, client: str = ""
    ) -> GlobalSession:
        """The session that a path names, if the caller may do `action` to it."""
        principal = principal_of(request)
        session = await self.half.lifecycle.find(name)
        found = admit(principal, action, name, session, client)
        check_not_removed(principal, found)
        return found

    async def binding(self, session: GlobalSession, client: str) -> ClientBinding:
        """A client's binding, also if another replica has only just made it."""
        known = self.half.hub.binding(session, client)
        if known is None and self.half.hub.link.ready:
            try:
                known = await self.half.bindings.find(session, client)
            except KubeError as error:
                raise HubUnreachable from error
        if known is None:
            raise NotThere(f"{client} is not in {session.metadata.name}")
        return known

    def newest(self, binding: ClientBinding) -> ClientBinding | None:
        """A binding as far as this replica knows it by now; None if it is gone."""
        cache = self.half.hub.bindings
        at = number(binding.metadata.resource_version)
        shown = cache.get(binding.key)
        if shown is not None and number(shown.metadata.resource_version) >= at:
            return shown
        if cache.revision >= at and self.half.hub.link.ready and shown is None:
            return None
        return binding
