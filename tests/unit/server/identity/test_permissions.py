"""Who may do what: the table says what is allowed, the test tries everything else."""

from itertools import product

import pytest

from edgewise.server.identity.permissions import Action, Subject, Verdict, decide, sees
from edgewise.server.identity.principal import Principal, Role
from edgewise.server.routes.sessions import actions
from edgewise.server.routes.sessions.actions import ACTIONS

OURS = Subject(session="room-1", session_uid="u-1", owner="arena", client="alice")
SUBJECTS = {
    "itself": OURS,
    "another client": Subject(session="room-1", session_uid="u-1", owner="arena", client="bob"),
    "the whole session": Subject(session="room-1", session_uid="u-1", owner="arena"),
    "a session of another application": Subject(
        session="room-2", session_uid="u-2", owner="other", client="alice"
    ),
    "a new session of the same name": Subject(
        session="room-1", session_uid="u-9", owner="arena", client="alice"
    ),
    "a session that is not there": Subject(session="room-3", client="alice"),
}
PRINCIPALS = {
    "admin": Principal(role=Role.ADMIN, application="ops"),
    "app": Principal(role=Role.APP, application="arena"),
    "app without a name": Principal(role=Role.APP),
    "reader": Principal(role=Role.READER, application="page"),
    "client": Principal(role=Role.CLIENT, session="room-1", session_uid="u-1", client="alice"),
    "client without a session": Principal(role=Role.CLIENT, client="alice"),
    "client without a name": Principal(role=Role.CLIENT, session="room-1", session_uid="u-1"),
}

READS = {
    actions.READ_TEMPLATES,
    actions.READ_LOCATIONS,
    actions.WATCH_ALL,
    actions.LIST_SESSIONS,
    actions.READ_SESSION,
    actions.WATCH_SESSION,
    actions.READ_CLIENT,
    actions.WATCH_CLIENT,
}
ABOUT_ITSELF = {
    actions.READ_CLIENT,
    actions.WATCH_CLIENT,
    actions.JOIN,
    actions.MOVE,
    actions.HEARTBEAT,
    actions.DISCONNECT,
    actions.LEAVE,
}
NOT_FOR_APPS = {actions.CORDON, actions.WATCH_ALL}


EVERYBODYS = {actions.READ_TEMPLATES, actions.READ_LOCATIONS}
NOT_OURS = ("a session of another application", "a session that is not there")


def expected(who: str, action: Action, about: str) -> bool:
    """The same rules in other words than the table's: this is what a person would say."""
    match who:
        case "admin":
            return True
        case "reader":
            return action in READS
        case "app":
            ours = action not in NOT_FOR_APPS and about not in NOT_OURS
            return action in EVERYBODYS or ours
        case "app without a name":
            return action in EVERYBODYS
        case "client":
            itself = about == "itself" and action in ABOUT_ITSELF
            return action is actions.READ_LOCATIONS or itself
        case _:
            return action is actions.READ_LOCATIONS


@pytest.mark.parametrize("who", PRINCIPALS)
def test_every_action_on_every_subject(who: str) -> None:
    wrong = [
        (str(action), about)
        for action, about in product(ACTIONS, SUBJECTS)
        if (decide(PRINCIPALS[who], action, SUBJECTS[about]) is Verdict.ALLOWED)
        is not expected(who, action, about)
    ]
    assert wrong == []


def test_every_action_is_in_the_table() -> None:
    named = {each for each in vars(actions).values() if isinstance(each, Action)}
    assert named == set(ACTIONS)


def test_other_peoples_sessions_cannot_be_told_from_missing_ones() -> None:
    for action in (actions.READ_SESSION, actions.DELETE_SESSION, actions.JOIN):
        for who in ("app", "client"):
            verdicts = {
                decide(PRINCIPALS[who], action, SUBJECTS[about])
                for about in ("a session of another application", "a session that is not there")
            }
            assert len(verdicts) == 1
            assert Verdict.ALLOWED not in verdicts


def of_issuer(name: str) -> Principal:
    return Principal(role=Role.APP, application=f"oidc:{name}")


def of_token(name: str) -> Principal:
    return Principal(role=Role.APP, application=name)


OWNERS = {
    "written for a token": ("arena", of_token("arena"), of_issuer("arena")),
    "written for an issuer": ("oidc:arena", of_issuer("arena"), of_token("arena")),
    "of old, and no token can be called so": (
        "auth0|77",
        of_issuer("auth0|77"),
        of_token("auth0|77"),
    ),
    "of old, and nobody can say": ("arena", of_token("arena"), of_issuer("arena")),
}


@pytest.mark.parametrize("case", OWNERS)
def test_an_application_of_an_issuer_is_not_its_namesake_with_a_token(case: str) -> None:
    owner, owns, namesake = OWNERS[case]
    subject = Subject(session="room-1", session_uid="u-1", owner=owner)
    assert decide(owns, actions.DELETE_SESSION, subject) is Verdict.ALLOWED
    assert decide(namesake, actions.DELETE_SESSION, subject) is Verdict.HIDDEN
    assert sees(owns, actions.LIST_SESSIONS, owner)
    assert not sees(namesake, actions.LIST_SESSIONS, owner)


def test_lists_are_cut_down_to_what_the_caller_owns() -> None:
    assert sees(PRINCIPALS["app"], actions.LIST_SESSIONS, "arena")
    assert not sees(PRINCIPALS["app"], actions.LIST_SESSIONS, "other")
    assert not sees(PRINCIPALS["app without a name"], actions.LIST_SESSIONS, "")
    assert sees(PRINCIPALS["reader"], actions.LIST_SESSIONS, "other")
    assert not sees(PRINCIPALS["client"], actions.LIST_SESSIONS, "arena")
