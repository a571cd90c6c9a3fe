"""Client tokens: one client of one session, for a short time, signed with our key."""

from typing import Any

import jwt
import pytest

from edgewise.server.identity import client_tokens
from edgewise.server.identity.client_tokens import (
    SigningKeys,
    UnusableKeys,
    check,
    issue,
    keys_in,
    new_keys_secret,
)
from edgewise.server.identity.principal import Role, Unauthenticated

NOW = 1_800_000_000.0
KEYS = keys_in(new_keys_secret("edge"))
WHO = {"session": "room-1", "session_uid": "u-1", "client": "alice"}


def forged(key: bytes = b"k" * 32, kid: str | None = None, **changes: Any) -> str:
    claims = {
        "iss": client_tokens.ISSUER,
        "aud": client_tokens.AUDIENCE,
        "sub": "alice",
        "session": "room-1",
        "uid": "u-1",
        "iat": int(NOW),
        "exp": int(NOW) + 60,
        **changes,
    }
    claims = {name: value for name, value in claims.items() if value is not None}
    headers = {"kid": KEYS.current if kid is None else kid}
    return jwt.encode(claims, key, algorithm="HS256", headers=headers)


def test_an_issued_token_stands_for_its_client() -> None:
    issued = issue(KEYS, **WHO, now=NOW)
    principal = check(issued.token, KEYS, NOW)
    assert principal.role is Role.CLIENT
    assert (principal.session, principal.session_uid, principal.client) == (
        "room-1",
        "u-1",
        "alice",
    )
    assert principal.expires == issued.expires == NOW + client_tokens.LIFETIME_SECONDS


def test_it_ends_when_it_says() -> None:
    issued = issue(KEYS, **WHO, now=NOW, lifetime=10)
    check(issued.token, KEYS, NOW + 9)
    with pytest.raises(Unauthenticated, match="expired"):
        check(issued.token, KEYS, NOW + 10)


def test_an_older_key_is_good_until_it_is_removed() -> None:
    issued = issue(KEYS, **WHO, now=NOW)
    rotated = SigningKeys("new", {**KEYS.keys, "new": b"n" * 32})
    assert check(issued.token, rotated, NOW).client == "alice"
    with pytest.raises(Unauthenticated, match="not in use"):
        check(issued.token, SigningKeys("new", {"new": b"n" * 32}), NOW)


RIGHT = KEYS.keys[KEYS.current]


@pytest.mark.parametrize(
    "token",
    [
        forged(),
        forged(RIGHT, kid="unknown"),
        forged(RIGHT, aud="somebody else"),
        forged(RIGHT, iss="somebody else"),
        forged(RIGHT, exp=None),
        forged(RIGHT, exp=int(NOW) - 1),
        forged(RIGHT, sub=None),
        forged(RIGHT, uid=None),
        forged(RIGHT, uid=""),
        forged(RIGHT, uid=7),
        forged(RIGHT, session=None),
        jwt.encode({"sub": "alice"}, "", algorithm="none", headers={"kid": KEYS.current}),
        issue(KEYS, **WHO, now=NOW).token[:-4] + "AAAA",
        "a.b.c",
        "",
    ],
    ids=lambda _: "case",  # tokens are random, but the name of a test is not
)
def test_anything_else_is_refused(token: str) -> None:
    with pytest.raises(Unauthenticated):
        check(token, KEYS, NOW)


def test_keys_are_fresh_each_time_and_not_shown() -> None:
    other = keys_in(new_keys_secret("edge"))
    assert other.keys[other.current] != RIGHT
    assert RIGHT.hex() not in repr(KEYS)
    assert repr(RIGHT) not in repr(KEYS)


@pytest.mark.parametrize(
    "data", [{}, {"current": b"a"}, {"a": b"x" * 32}, {"current": b"a", "a": b"short"}]
)
def test_a_secret_without_a_good_key_is_refused(data: dict[str, bytes]) -> None:
    secret = new_keys_secret("edge")
    secret.data = data
    with pytest.raises(UnusableKeys, match="cannot sign client tokens"):
        keys_in(secret)
