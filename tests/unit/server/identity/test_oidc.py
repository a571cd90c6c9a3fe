"""OIDC: the issuer's own signature, for us, now, with a role; keys that rotate and outages."""

import base64
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from edgewise.server.identity.issuer_keys import IssuerError, IssuerKeys
from edgewise.server.identity.oidc import Oidc, OidcSettings
from edgewise.server.identity.principal import IdentityUnavailable, Role, Unauthenticated
from tests.unit.server.identity.tokens import (
    AUDIENCE,
    ISSUER,
    NOW,
    Clock,
    Issuer,
    private_key,
)

SETTINGS = OidcSettings(issuer=ISSUER, audience=AUDIENCE)


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def oidc(issuer: Issuer, clock: Clock) -> Oidc:
    return Oidc(SETTINGS, IssuerKeys(ISSUER, issuer.fetch, monotonic=clock), clock=clock)


async def test_a_good_token(oidc: Oidc, issuer: Issuer) -> None:
    principal = await oidc.check(issuer.token())
    assert (principal.role, principal.application) == (Role.APP, "oidc:arena")


@pytest.mark.parametrize(
    ("claimed", "role"),
    [
        ("reader", Role.READER),
        (["reader", "admin"], Role.ADMIN),
        (["something", "app"], Role.APP),
    ],
)
async def test_the_strongest_role_counts(oidc: Oidc, issuer: Issuer, claimed: Any, role) -> None:
    assert (await oidc.check(issuer.token(edgewise_role=claimed))).role is role


@pytest.mark.parametrize("algorithm", ["RS256", "PS384", "ES256", "EdDSA"])
async def test_signatures_of_every_kind(oidc: Oidc, issuer: Issuer, algorithm: str) -> None:
    kind = "RS256" if algorithm == "PS384" else algorithm
    issuer.keys = {"k": private_key(kind)}
    assert (await oidc.check(issuer.token("k", algorithm))).role is Role.APP


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"aud": "somebody else"}, "meant for somebody else"),
        ({"aud": None}, "does not hold"),
        ({"iss": "https://evil.example.org"}, "does not hold"),
        ({"exp": int(NOW) - 31}, "expired"),
        ({"exp": None}, "does not hold"),
        ({"exp": "soon"}, "expired"),
        ({"exp": True}, "expired"),
        ({"exp": float("nan")}, "expired"),
        ({"exp": float("inf")}, "expired"),
        ({"exp": 10**400}, "expired"),
        ({"nbf": int(NOW) + 60}, "not valid yet"),
        ({"nbf": float("nan")}, "not valid yet"),
        ({"nbf": float("-inf")}, "not valid yet"),
        ({"nbf": "soon"}, "not valid yet"),
        ({"edgewise_role": None}, "no role"),
        ({"edgewise_role": "client"}, "no role"),
        ({"edgewise_role": {"app": True}}, "no role"),
        ({"sub": None}, "names no application"),
        ({"sub": ""}, "names no application"),
        ({"sub": "arena\nadmin: yes"}, "names no application"),
        ({"sub": "arena\r"}, "names no application"),
        ({"sub": "arena\u2028x"}, "names no application"),
        ({"sub": "arena\x1b[2J"}, "names no application"),
        ({"sub": "a" * 254}, "names no application"),
    ],
)
async def test_bad_claims_are_refused(oidc: Oidc, issuer: Issuer, changes, said: str) -> None:
    with pytest.raises(Unauthenticated, match=said):
        await oidc.check(issuer.token(**changes))


async def test_somebody_elses_signature_is_refused(oidc: Oidc, issuer: Issuer) -> None:
    forged = Issuer().token()
    with pytest.raises(Unauthenticated, match="does not hold"):
        await oidc.check(forged)


async def test_a_public_key_cannot_be_used_as_a_shared_secret(oidc: Oidc, issuer: Issuer) -> None:
    """The classic confusion: HS256 with the RSA key that everybody can read."""
    public = issuer.keys["one"].public_key()
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(NOW) + 60, "edgewise_role": "admin"}
    body = b".".join(map(base64url, ({"alg": "HS256", "kid": "one"}, claims)))
    for encoding in (Encoding.PEM, Encoding.DER):
        key = public.public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)
        signature = hmac.digest(key, body, "sha256")
        token = b".".join((body, base64.urlsafe_b64encode(signature).rstrip(b"=")))
        with pytest.raises(Unauthenticated, match="does not hold"):
            await oidc.check(token.decode())


async def test_an_unsigned_token_is_refused(oidc: Oidc) -> None:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(NOW) + 60, "edgewise_role": "admin"}
    token = jwt.encode(claims, "", algorithm="none", headers={"kid": "one"})
    with pytest.raises(Unauthenticated, match="does not hold"):
        await oidc.check(token)


def base64url(content: dict[str, Any]) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=")


async def test_a_shared_secret_in_the_published_keys_is_ignored(oidc: Oidc, issuer: Issuer) -> None:
    async def fetch(url: str) -> bytes:
        if url.endswith("keys"):
            return (
                b'{"keys": [{"kty": "oct", "kid": "one", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}]}'
            )
        return await issuer.fetch(url)

    assert await IssuerKeys(ISSUER, fetch).find("one") is None


@pytest.mark.parametrize("content", [b"<html>", b'{"keys": "\xff"}'])
async def test_keys_that_cannot_be_read_are_told(
    issuer: Issuer, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    async def fetch(url: str) -> bytes:
        return content if url.endswith("keys") else await issuer.fetch(url)

    with pytest.raises(IdentityUnavailable, match="cannot be fetched"):
        await IssuerKeys(ISSUER, fetch).find("one")
    assert "is not a JSON object" in caplog.text


async def test_a_rotated_key_is_fetched_at_once(oidc: Oidc, issuer: Issuer, clock: Clock) -> None:
    await oidc.check(issuer.token())
    issuer.keys = {"two": private_key("ES256")}
    clock.now += 11
    assert (await oidc.check(issuer.token("two", "ES256"))).role is Role.APP


async def test_a_removed_key_takes_its_tokens_with_it(
    oidc: Oidc, issuer: Issuer, clock: Clock
) -> None:
    old = issuer.token(exp=int(NOW) + 9000)
    await oidc.check(old)
    issuer.keys = {"two": private_key("ES256")}
    clock.now += 301
    with pytest.raises(Unauthenticated, match="does not list"):
        await oidc.check(old)


async def test_unknown_keys_do_not_make_us_hammer_the_issuer(
    oidc: Oidc, issuer: Issuer, clock: Clock
) -> None:
    await oidc.check(issuer.token())
    before = len(issuer.fetches)
    issuer.keys["ghost"] = private_key("ES256")
    ghost = issuer.token("ghost", "ES256")
    del issuer.keys["ghost"]
    for _ in range(50):
        with pytest.raises(Unauthenticated):
            await oidc.check(ghost)
    assert len(issuer.fetches) == before
    clock.now += 11
    for _ in range(50):
        with pytest.raises(Unauthenticated):
            await oidc.check(ghost)
    assert len(issuer.fetches) == before + 2


async def test_an_outage_of_the_issuer_changes_nothing_for_a_day(
    oidc: Oidc, issuer: Issuer, clock: Clock
) -> None:
    await oidc.check(issuer.token())
    issuer.down = True
    clock.now += 80_000
    assert (await oidc.check(issuer.token(exp=int(clock.now) + 60))).role is Role.APP
    clock.now += 8_000
    with pytest.raises(IdentityUnavailable, match="try again later"):
        await oidc.check(issuer.token(exp=int(clock.now) + 60))
    issuer.down = False
    clock.now += 11
    assert (await oidc.check(issuer.token(exp=int(clock.now) + 60))).role is Role.APP


async def test_before_the_first_fetch_nobody_can_say(oidc: Oidc, issuer: Issuer) -> None:
    issuer.down = True
    with pytest.raises(IdentityUnavailable):
        await oidc.check(issuer.token())


async def test_an_issuer_that_calls_itself_otherwise_is_not_believed(
    oidc: Oidc, issuer: Issuer
) -> None:
    issuer.name = "https://evil.example.org"
    with pytest.raises(IdentityUnavailable):
        await oidc.check(issuer.token())


@pytest.mark.parametrize(
    "url", ["http://login.example.org", "login.example.org", "", "ftp://x", "https://", "http://["]
)
def test_keys_never_come_over_plain_http(url: str) -> None:
    with pytest.raises(IssuerError, match="https://"):
        IssuerKeys(url, Issuer().fetch)


async def test_a_checked_token_is_remembered_until_it_expires(
    oidc: Oidc, issuer: Issuer, clock: Clock
) -> None:
    token = issuer.token()
    first = await oidc.check(token)
    assert await oidc.check(token) is first
    clock.now += 700
    with pytest.raises(Unauthenticated, match="expired"):
        await oidc.check(token)
