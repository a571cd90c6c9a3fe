"""What is remembered of clients that their application took out."""

from __future__ import annotations

from edgewise.api.global_sessions import GlobalSession
from edgewise.sessions.hub.removals import (
    MARGIN_SECONDS,
    MOST_REMEMBERED,
    last_removal,
    plan_removal,
)
from tests.unit.sessions.hub.bindings import global_session

NOW = 1_900_000_000.0
TOKEN_SECONDS = 900


def removed(session: GlobalSession, client: str, now: float = NOW) -> None:
    for name, value in plan_removal(session, client, now, TOKEN_SECONDS).items():
        if value is None:
            del session.metadata.annotations[name]
        else:
            session.metadata.annotations[name] = value


def test_who_was_never_taken_out() -> None:
    session = global_session()
    removed(session, "bob")
    assert last_removal(session, "alice") == 0


def test_each_removal_is_later_than_the_one_before_whatever_the_clock_says() -> None:
    session = global_session()
    removed(session, "Alice/ä")
    first = last_removal(session, "Alice/ä")
    removed(session, "Alice/ä", NOW - 3600)
    assert last_removal(session, "Alice/ä") > first > 0


def test_it_is_forgotten_when_no_token_is_left_from_before() -> None:
    session = global_session()
    removed(session, "alice")
    removed(session, "bob", NOW + 60)
    removed(session, "carol", NOW + 1 + TOKEN_SECONDS + MARGIN_SECONDS)
    assert last_removal(session, "alice") == 0
    assert last_removal(session, "bob") > 0


def test_there_is_a_bound_and_the_oldest_are_forgotten_first() -> None:
    session = global_session()
    for number in range(MOST_REMEMBERED + 5):
        removed(session, f"client-{number}", NOW + number / 1000)
    assert len(session.metadata.annotations) == MOST_REMEMBERED
    assert last_removal(session, "client-4") == 0
    assert last_removal(session, "client-5") > 0


def test_what_others_write_on_the_session_is_left_alone() -> None:
    session = global_session()
    session.metadata.annotations["example.org/note"] = "mine"
    removed(session, "alice")
    assert session.metadata.annotations["example.org/note"] == "mine"
