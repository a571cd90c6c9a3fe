"""Whatever a header holds, it is a known principal or a refusal, and never a crash."""

import base64
import logging

import jwt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.server.identity import client_tokens
from edgewise.server.identity.api_tokens import make_token
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.identity.issuer_keys import IssuerKeys
from edgewise.server.identity.oidc import Oidc, OidcSettings
from edgewise.server.identity.principal import IdentityUnavailable, Role, Unauthenticated
from tests.unit.server.identity.tokens import AUDIENCE, ISSUER, NOW, Clock, Held, Issuer

TOKEN, KEPT = make_token(Role.READER, "page")
KEYS = client_tokens.keys_in(client_tokens.new_keys_secret("edge"))
THE_ISSUER = Issuer()


def authenticator(with_oidc: bool = True, keys=KEYS) -> Authenticator:
    clock = Clock()
    issuer_keys = IssuerKeys(ISSUER, THE_ISSUER.fetch, monotonic=clock)
    settings = OidcSettings(issuer=ISSUER, audience=AUDIENCE)
    oidc = Oidc(settings, issuer_keys, clock=clock) if with_oidc else None
    return Authenticator(Held(KEPT, keys=keys), oidc, clock=clock)


def client_token() -> str:
    issued = client_tokens.issue(KEYS, session="room-1", session_uid="u-1", client="alice", now=NOW)
    return issued.token


async def test_each_kind_of_token_is_told_apart() -> None:
    door = authenticator()
    assert (await door.authenticate(f"Bearer {TOKEN}")).role is Role.READER
    assert (await door.authenticate(f"bearer  {client_token()}")).role is Role.CLIENT
    assert (await door.authenticate(f"Bearer {THE_ISSUER.token()}")).role is Role.APP


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, "Bearer ü", "Bearer a b"],
    ids=lambda _: "case",  # tokens are random, but the name of a test is not
)
async def test_what_is_no_bearer_token_is_refused(header: str | None) -> None:
    with pytest.raises(Unauthenticated):
        await authenticator().authenticate(header)


async def test_without_oidc_its_tokens_are_refused() -> None:
    with pytest.raises(Unauthenticated, match="of no kind"):
        await authenticator(with_oidc=False).authenticate(f"Bearer {THE_ISSUER.token()}")


async def test_until_the_keys_are_there_nobody_can_say() -> None:
    with pytest.raises(IdentityUnavailable):
        await authenticator(keys=None).authenticate(f"Bearer {client_token()}")


async def test_the_issuer_cannot_make_client_tokens_and_we_cannot_make_its_tokens() -> None:
    """Each key is used only for what it is for, whatever the token says about itself."""
    door = authenticator()
    by_issuer = THE_ISSUER.token(iss="edgewise", aud=client_tokens.AUDIENCE)
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": NOW + 60, "edgewise_role": "admin"}
    by_us = jwt.encode(
        claims, KEYS.keys[KEYS.current], algorithm="HS256", headers={"kid": KEYS.current}
    )
    for token in (by_issuer, by_us):
        with pytest.raises(Unauthenticated):
            await door.authenticate(f"Bearer {token}")


def nested(depth: int) -> str:
    deep = base64.urlsafe_b64encode(b"[" * depth).decode().rstrip("=")
    return f"{deep}.{deep}.{deep}"


@pytest.mark.parametrize("token", [nested(2000), "." * 5000, "a" * 9000, "ewt_" * 100])
async def test_monsters_are_refused(token: str) -> None:
    with pytest.raises(Unauthenticated):
        await authenticator().authenticate(f"Bearer {token}")


@settings(max_examples=300)
@given(st.text(max_size=60) | st.from_regex(r"[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*"))
async def test_made_up_tokens_are_refused(text: str) -> None:
    with pytest.raises(Unauthenticated):
        await authenticator().authenticate(f"Bearer {text}")


async def test_no_token_is_ever_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    door = authenticator()
    for token in (TOKEN, client_token(), THE_ISSUER.token()):
        await door.authenticate(f"Bearer {token}")
        wrong = token[:-5] + "AAAAA"
        with pytest.raises(Unauthenticated) as refused:
            await door.authenticate(f"Bearer {wrong}")
        for secret in (token, wrong):
            assert secret not in str(refused.value)
            assert secret not in caplog.text
