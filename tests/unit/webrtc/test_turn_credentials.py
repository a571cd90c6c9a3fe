"""Credentials that a TURN server with the same secret accepts, and only until they end."""

import base64
import hashlib
import hmac

import msgspec
import pytest

from edgewise.exposure.turn import IceServer, TurnError, TurnRealm, password

SECRET = "0123456789abcdef0123456789abcdef"
REALM = TurnRealm(urls=("turn:192.0.2.7:3478",), secret=SECRET, lifetime=600)


def test_user_name_is_expiry_and_client() -> None:
    issued = REALM.credentials("alice", now=1_700_000_000.9)
    assert issued.username == "1700000600:alice"
    assert issued.expires_at == 1_700_000_600


def test_password_is_the_base64_hmac_sha1_of_the_user_name() -> None:
    issued = REALM.credentials("alice", now=1_700_000_000)
    mac = hmac.new(SECRET.encode(), b"1700000600:alice", hashlib.sha1)
    assert base64.b64decode(issued.credential) == mac.digest()


def test_password_matches_a_value_computed_with_openssl() -> None:
    # printf '1700000600:alice' | openssl dgst -sha1 -hmac "$SECRET" -binary | base64
    assert password(SECRET, "1700000600:alice") == "wMBOAcGEIfknqoIzyjafdBBKEx4="


def test_json_is_what_rtcpeerconnection_takes() -> None:
    issued = REALM.credentials("alice", now=0)
    assert set(msgspec.to_builtins(issued)) == {"urls", "username", "credential"}
    assert msgspec.convert(msgspec.to_builtins(issued), IceServer) == issued


def test_two_clients_never_share_a_password() -> None:
    one, two = (REALM.credentials(client, now=5).credential for client in ("a", "b"))
    assert one != two


def test_secrets_are_not_shown_by_repr() -> None:
    issued = REALM.credentials("alice", now=0)
    assert SECRET not in repr(REALM)
    assert issued.credential not in repr(issued)


@pytest.mark.parametrize("client", ["", "a:b", "a b", "a\n", "é", "x" * 257])
def test_clients_that_a_server_could_misread_are_refused(client: str) -> None:
    with pytest.raises(TurnError, match="TURN user name"):
        REALM.credentials(client, now=0)


@pytest.mark.parametrize(
    ("urls", "secret", "lifetime", "says"),
    [
        ((), SECRET, 60, "no TURN URL"),
        (("stun:192.0.2.7",), SECRET, 60, "not a TURN URL"),
        (("turn://192.0.2.7",), SECRET, 60, "not a TURN URL"),
        (("turn:192.0.2.7:70000",), SECRET, 60, "ports go from"),
        (("turn:192.0.2.7?transport=sctp",), SECRET, 60, "not a TURN URL"),
        (("turn:192.0.2.7",), "short", 60, "shorter than"),
        (("turn:192.0.2.7",), SECRET, 0, "must last between"),
        (("turn:192.0.2.7",), SECRET, 86_401, "must last between"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    urls: tuple[str, ...], secret: str, lifetime: int, says: str
) -> None:
    with pytest.raises(TurnError, match=says):
        TurnRealm(urls=urls, secret=secret, lifetime=lifetime)


@pytest.mark.parametrize(
    "url", ["turn:host", "turns:turn.example.org:443?transport=tcp", "turn:[2001:db8::1]:3478"]
)
def test_the_forms_of_a_turn_url(url: str) -> None:
    assert TurnRealm(urls=(url,), secret=SECRET).credentials("a", now=0).urls == (url,)
