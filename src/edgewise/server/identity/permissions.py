"""Who may do what: one table, and one function that reads it.

Every route of the HTTP API names one `Action`. What is not in the table is forbidden.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from edgewise.server.identity.principal import Principal, Role


class Action(StrEnum):
    READ_TEMPLATES = "read templates"
    READ_LOCATIONS = "read locations"
    WATCH_FLEET = "watch the whole fleet"
    LIST_SESSIONS = "list sessions"
    CREATE_SESSION = "create a session"
    READ_SESSION = "read a session"
    WATCH_SESSION = "watch a session"
    DELETE_SESSION = "delete a session"
    ISSUE_CLIENT_TOKEN = "issue a client token"  # noqa: S105 - not a secret
    READ_CLIENT = "read a client"
    WATCH_CLIENT = "watch a client"
    JOIN = "join"
    MOVE = "move to another location"
    HEARTBEAT = "send a heartbeat"
    DISCONNECT = "report a client as lost"
    LEAVE = "leave"
    CORDON = "cordon a location"


class Reach(StrEnum):
    """How far a permission goes."""

    ALL = "everything"
    OWN = "the sessions of its own application"
    SELF = "itself, in its own session"


_A, _O, _S = Reach.ALL, Reach.OWN, Reach.SELF

# A client may list the locations, since it has to measure them before it can join. It may
# not read its session: who else is there is for the application to tell.
PERMISSIONS: dict[Action, dict[Role, Reach]] = {
    Action.READ_TEMPLATES: {Role.ADMIN: _A, Role.APP: _A, Role.READER: _A},
    Action.READ_LOCATIONS: {Role.ADMIN: _A, Role.APP: _A, Role.READER: _A, Role.CLIENT: _A},
    Action.WATCH_FLEET: {Role.ADMIN: _A, Role.READER: _A},
    Action.LIST_SESSIONS: {Role.ADMIN: _A, Role.APP: _O, Role.READER: _A},
    Action.CREATE_SESSION: {Role.ADMIN: _A, Role.APP: _O},
    Action.READ_SESSION: {Role.ADMIN: _A, Role.APP: _O, Role.READER: _A},
    Action.WATCH_SESSION: {Role.ADMIN: _A, Role.APP: _O, Role.READER: _A},
    Action.DELETE_SESSION: {Role.ADMIN: _A, Role.APP: _O},
    Action.ISSUE_CLIENT_TOKEN: {Role.ADMIN: _A, Role.APP: _O},
    Action.READ_CLIENT: {Role.ADMIN: _A, Role.APP: _O, Role.READER: _A, Role.CLIENT: _S},
    Action.WATCH_CLIENT: {Role.ADMIN: _A, Role.APP: _O, Role.READER: _A, Role.CLIENT: _S},
    Action.JOIN: {Role.ADMIN: _A, Role.APP: _O, Role.CLIENT: _S},
    Action.MOVE: {Role.ADMIN: _A, Role.APP: _O, Role.CLIENT: _S},
    Action.HEARTBEAT: {Role.ADMIN: _A, Role.APP: _O, Role.CLIENT: _S},
    Action.DISCONNECT: {Role.ADMIN: _A, Role.APP: _O, Role.CLIENT: _S},
    Action.LEAVE: {Role.ADMIN: _A, Role.APP: _O, Role.CLIENT: _S},
    Action.CORDON: {Role.ADMIN: _A},
}


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What an action is about. A session that does not exist has no uid and no owner."""

    session: str = ""
    session_uid: str = ""
    owner: str = ""
    client: str = ""


class Verdict(StrEnum):
    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"
    # Nothing may be learned about it, not even whether it exists.
    HIDDEN = "hidden"


def decide(principal: Principal, action: Action, subject: Subject | None = None) -> Verdict:
    """Whether `principal` may do `action`, about `subject` where it is about a session.

    Without a subject the question is only whether the role may do it to anything at all;
    lists then have to be cut down with `sees`.
    """
    reach = PERMISSIONS[action].get(principal.role)
    if reach is None:
        return Verdict.FORBIDDEN
    if subject is None or reach is Reach.ALL:
        return Verdict.ALLOWED
    if reach is Reach.OWN:
        # Without a name, an application would own what nobody owns.
        own = bool(principal.application) and subject.owner == principal.application
        return Verdict.ALLOWED if own else Verdict.HIDDEN
    if not principal.session_uid or principal.session_uid != subject.session_uid:
        return Verdict.HIDDEN
    itself = bool(principal.client) and subject.client == principal.client
    return Verdict.ALLOWED if itself else Verdict.FORBIDDEN


def sees(principal: Principal, owner: str) -> bool:
    """Whether a session of `owner` is in this caller's lists."""
    verdict = decide(principal, Action.LIST_SESSIONS, Subject(owner=owner))
    return verdict is Verdict.ALLOWED
