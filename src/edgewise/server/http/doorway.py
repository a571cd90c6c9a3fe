"""Who comes in, how often, and to do what: checked before anything of a request is read."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from edgewise.api.fleet import FleetSession
from edgewise.runtime.budgets import Budgets
from edgewise.server.errors import NotThere
from edgewise.server.http.problems import Forbidden, TooMany
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.identity.permissions import Action, Subject, Verdict, decide
from edgewise.server.identity.principal import (
    IdentityUnavailable,
    Principal,
    Role,
    Unauthenticated,
)
from edgewise.server.removals import last_removal

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


class Doorway:
    """A guard of every route: routes say in `opt` which action they are, or that they are open."""

    def __init__(self, authenticator: Authenticator, rates: Rates | None = None) -> None:
        self._authenticator = authenticator
        self._budgets = (rates or Rates()).budgets()

    async def __call__(self, connection: Connection, handler: BaseRouteHandler) -> None:
        if handler.opt.get("open"):
            return
        action = handler.opt.get("action")
        if not isinstance(action, Action):
            # A route that forgot to say what it does is closed to everybody.
            raise Forbidden("this cannot be done by anybody")
        principal = await self.authenticate(connection)
        wait = self._budgets[principal.role].spend(str(principal))
        if wait:
            raise TooMany("too many requests: wait as long as Retry-After says", wait)
        connection.scope["state"]["principal"] = principal
        if decide(principal, action) is not Verdict.ALLOWED:
            raise Forbidden(f"{_an(principal.role)} may not {action}")

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


def sees_endpoints(connection: Connection) -> bool:
    """Who only looks is not shown what leads into other people's pods."""
    return principal_of(connection).role is not Role.READER


def admit(
    principal: Principal, action: Action, name: str, session: FleetSession | None, client: str = ""
) -> FleetSession:
    """The session, if this caller may do this to it (and to this client in it)."""
    subject = Subject(session=name, client=client)
    if session is not None:
        subject = Subject(
            session=name,
            session_uid=session.metadata.uid,
            owner=session.spec.owner,
            client=client,
        )
    match decide(principal, action, subject):
        case Verdict.FORBIDDEN:
            raise Forbidden(f"{_an(principal.role)} may not {action} for somebody else")
        case Verdict.ALLOWED if session is not None:
            return session
        case _:
            raise NotThere(f"there is no session {name!r}")


def was_removed(principal: Principal, session: FleetSession) -> bool:
    """Whether its application took a client out after the client got its token."""
    if principal.role is not Role.CLIENT:
        return False
    return principal.removal < last_removal(session, principal.client)


def check_not_removed(principal: Principal, session: FleetSession) -> None:
    """A client that its application took out needs a new token before it can come back."""
    if was_removed(principal, session):
        raise Unauthenticated(
            f"{principal.client} was taken out of {session.metadata.name}: "
            "ask the application for a new token"
        )


def _an(role: Role) -> str:
    return f"an {role}" if role in (Role.ADMIN, Role.APP) else f"a {role}"
