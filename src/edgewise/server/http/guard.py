"""Who comes in, how often, and to do what: checked before anything of a request is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from edgewise.runtime.budgets import Budgets
from edgewise.server.http.problems import NotAllowed, TooMany
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.identity.permissions import Action, Verdict, decide
from edgewise.server.identity.principal import (
    IdentityUnavailable,
    Principal,
    Role,
    Unauthenticated,
    with_article,
)

Connection = ASGIConnection[Any, Any, Any, Any]


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Requests a second; each may come in a burst of twice as many, and at least 20."""

    client: float = 10.0
    application: float = 1000.0
    stranger: float = 10.0  # failed attempts of one address

    def budgets(self) -> dict[Role | None, Budgets]:
        def of(rate: float) -> Budgets:
            return Budgets(rate, max(20, int(2 * rate)))

        applications = of(self.application)
        return {
            Role.CLIENT: of(self.client),
            Role.APP: applications,
            Role.READER: applications,
            Role.ADMIN: applications,
            None: of(self.stranger),
        }


class Guard:
    """A guard of every route: routes say in `opt` which action they are, or that they are open.

    `actions` is the table of all domains that this server serves, by name.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        actions: Mapping[str, Action],
        rates: Rates | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._actions = actions
        self._budgets = (rates or Rates()).budgets()

    async def __call__(self, connection: Connection, handler: BaseRouteHandler) -> None:
        if handler.opt.get("open"):
            return
        action = self.action_of(handler)
        if action is None:
            # A route that forgot to say what it does is closed to everybody.
            raise NotAllowed("this cannot be done by anybody")
        principal = await self.authenticate(connection)
        wait = self._budgets[principal.role].spend(str(principal))
        if wait:
            raise TooMany("too many requests: wait as long as Retry-After says", wait)
        connection.scope["state"]["principal"] = principal
        if decide(principal, action) is not Verdict.ALLOWED:
            raise NotAllowed(f"{with_article(principal.role)} may not {action}")

    def action_of(self, handler: BaseRouteHandler) -> Action | None:
        """What a route does, if that is in the table."""
        action = handler.opt.get("action")
        # By name: the framework copies what a route is given.
        return self._actions.get(action.name) if isinstance(action, Action) else None

    async def authenticate(self, connection: Connection) -> Principal:
        try:
            return await self._authenticator.authenticate(connection.headers.get("authorization"))
        except Unauthenticated:
            # Only failures are counted: guessing is slow, and a shared address is not punished.
            address = connection.client.host if connection.client else ""
            if wait := self._budgets[None].spend(address):
                raise TooMany("too many failed attempts from this address", wait) from None
            raise

    async def still_is(self, connection: Connection, principal: Principal) -> bool:
        """Whether somebody who was let in would be let in again. It is no attempt to guess."""
        header = connection.headers.get("authorization")
        try:
            return await self._authenticator.authenticate(header) == principal
        except Unauthenticated:
            return False
        except IdentityUnavailable:
            return True


def principal_of(connection: Connection) -> Principal:
    principal = connection.scope["state"]["principal"]
    assert isinstance(principal, Principal)  # noqa: S101 - the doorway put it there
    return principal
