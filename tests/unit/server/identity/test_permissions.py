"""Who may do what: the table says what is allowed, the test tries everything else."""

from itertools import product

import pytest

from edgewise.server.identity.permissions import (
    PERMISSIONS,
    Action,
    Subject,
    Verdict,
    decide,
    sees,
)
from edgewise.server.identity.principal import Principal, Role

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
    Action.READ_TEMPLATES,
    Action.READ_LOCATIONS,
    Action.WATCH_FLEET,
    Action.LIST_SESSIONS,
    Action.READ_SESSION,
    Action.WATCH_SESSION,
    Action.READ_CLIENT,
    Action.WATCH_CLIENT,
}
ABOUT_ITSELF = {
    Action.READ_CLIENT,
    Action.WATCH_CLIENT,
    Action.JOIN,
    Action.MOVE,
    Action.HEARTBEAT,
    Action.DISCONNECT,
    Action.LEAVE,
}
NOT_FOR_APPS = {Action.CORDON, Action.WATCH_FLEET}


EVERYBODYS = {Action.READ_TEMPLATES, Action.READ_LOCATIONS}
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
            return action is Action.READ_LOCATIONS or itself
        case _:
            return action is Action.READ_LOCATIONS


@pytest.mark.parametrize("who", PRINCIPALS)
def test_every_action_on_every_subject(who: str) -> None:
    wrong = [
        (str(action), about)
        for action, about in product(Action, SUBJECTS)
        if (decide(PRINCIPALS[who], action, SUBJECTS[about]) is Verdict.ALLOWED)
        is not expected(who, action, about)
    ]
    assert wrong == []


def test_every_action_is_in_the_table() -> None:
    assert set(PERMISSIONS) == set(Action)


def test_other_peoples_sessions_cannot_be_told_from_missing_ones() -> None:
    for action in (Action.READ_SESSION, Action.DELETE_SESSION, Action.JOIN):
        for who in ("app", "client"):
            verdicts = {
                decide(PRINCIPALS[who], action, SUBJECTS[about])
                for about in ("a session of another application", "a session that is not there")
            }
            assert len(verdicts) == 1
            assert Verdict.ALLOWED not in verdicts


def test_lists_are_cut_down_to_what_the_caller_owns() -> None:
    assert sees(PRINCIPALS["app"], "arena")
    assert not sees(PRINCIPALS["app"], "other")
    assert not sees(PRINCIPALS["app without a name"], "")
    assert sees(PRINCIPALS["reader"], "other")
    assert not sees(PRINCIPALS["client"], "arena")
