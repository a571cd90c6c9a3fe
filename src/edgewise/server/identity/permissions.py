"""Who may do what: each domain has a table of actions, and one function reads them all.

Every route of the HTTP API names one `Action`. A role that an action does not name is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from edgewise.api.owners import owner_in
from edgewise.server.identity.principal import Principal, Role


class Reach(StrEnum):
    """How far a permission goes."""

    ALL = "everything"
    OWN = "the sessions of its own application"
    SELF = "itself, in its own session"


class Action(msgspec.Struct, frozen=True, eq=False):
    """Something that can be done through the API, and how far each role may go with it.

    `name` is the end of "a reader may not …". A role that is not in `who` may not do it at all.
    """

    name: str
    who: Mapping[Role, Reach]

    def __str__(self) -> str:
        return self.name


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
    reach = action.who.get(principal.role)
    if reach is None:
        return Verdict.FORBIDDEN
    if subject is None or reach is Reach.ALL:
        return Verdict.ALLOWED
    if reach is Reach.OWN:
        # Without a name, an application would own what nobody owns.
        own = bool(principal.application) and owner_in(subject.owner) == principal.application
        return Verdict.ALLOWED if own else Verdict.HIDDEN
    if not principal.session_uid or principal.session_uid != subject.session_uid:
        return Verdict.HIDDEN
    itself = bool(principal.client) and subject.client == principal.client
    return Verdict.ALLOWED if itself else Verdict.FORBIDDEN


def sees(principal: Principal, action: Action, owner: str) -> bool:
    """Whether what belongs to `owner` is in the lists that this caller gets by `action`."""
    return decide(principal, action, Subject(owner=owner)) is Verdict.ALLOWED
