"""Which session a caller may act on, and which client in it."""

from __future__ import annotations

from edgewise.api.global_sessions import GlobalSession
from edgewise.runtime.errors import NotThere
from edgewise.server.http.guard import Connection, principal_of
from edgewise.server.http.problems import NotAllowed
from edgewise.server.identity.permissions import Action, Subject, Verdict, decide
from edgewise.server.identity.principal import Principal, Role, Unauthenticated, with_article
from edgewise.sessions.hub.removals import last_removal


def sees_endpoints(connection: Connection) -> bool:
    """Who only looks is not shown what leads into other people's pods."""
    return principal_of(connection).role is not Role.READER


def admit(
    principal: Principal, action: Action, name: str, session: GlobalSession | None, client: str = ""
) -> GlobalSession:
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
            raise NotAllowed(f"{with_article(principal.role)} may not {action} for somebody else")
        case Verdict.ALLOWED if session is not None:
            return session
        case _:
            raise NotThere(f"there is no session {name!r}")


def was_removed(principal: Principal, session: GlobalSession) -> bool:
    """Whether its application took a client out after the client got its token."""
    if principal.role is not Role.CLIENT:
        return False
    return principal.removal < last_removal(session, principal.client)


def check_not_removed(principal: Principal, session: GlobalSession) -> None:
    """A client that its application took out needs a new token before it can come back."""
    if was_removed(principal, session):
        raise Unauthenticated(
            f"{principal.client} was taken out of {session.metadata.name}: "
            "ask the application for a new token"
        )
