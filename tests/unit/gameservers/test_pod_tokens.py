"""Which tokens of pods the operator takes."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from edgewise.gameservers.sdk.tokens import BadToken, PodIdentity, PodTokens

NOW = 1_700_000_000.0
AUDIENCE = "games"
KEY = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)


def text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return text(value.to_bytes((value.bit_length() + 7) // 8))


PUBLIC = KEY.public_key().public_numbers()
KEYS = msgspec.json.encode(
    {"keys": [{"kty": "RSA", "kid": "k", "n": number(PUBLIC.n), "e": number(PUBLIC.e)}]}
)
POD = {"namespace": "play", "pod": {"name": "one-pod", "uid": "p1"}}


def token(key: rsa.RSAPrivateKey = KEY, header: dict[str, Any] | None = None, **claims: Any) -> str:
    head = {"alg": "RS256", "kid": "k", **(header or {})}
    body = {"aud": [AUDIENCE], "exp": NOW + 60, "nbf": NOW, "kubernetes.io": POD, **claims}
    signed = f"{text(msgspec.json.encode(head))}.{text(msgspec.json.encode(body))}"
    return f"{signed}.{text(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class Published:
    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self) -> bytes:
        self.asked += 1
        return KEYS


def tokens(published: Published | None = None) -> PodTokens:
    return PodTokens(
        AUDIENCE, published or Published(), clock=lambda: NOW, monotonic=lambda: 1000.0
    )


async def test_the_token_of_a_pod_says_which_pod_speaks() -> None:
    assert await tokens().check(token()) == PodIdentity("play", "one-pod", "p1")


REFUSED = {
    "one that has expired": (token(exp=NOW - 31), "has expired"),
    "one that never expires": (token(exp=0), "has expired"),
    "one that is not good yet": (token(nbf=NOW + 31), "not good yet"),
    "one for somebody else": (token(aud=["api"]), "meant for somebody else"),
    "one of a ServiceAccount without a pod": (
        token(**{"kubernetes.io": {"namespace": "play"}}),
        "not bound to a pod",
    ),
    "one without a uid": (
        token(**{"kubernetes.io": {"namespace": "play", "pod": {"name": "one-pod"}}}),
        "not bound to a pod",
    ),
    "one that another cluster has signed": (token(OTHER), "no valid signature"),
    "one that names no algorithm": (token(header={"alg": "none"}), "in a way that is not taken"),
    "one that takes the public key for a secret": (
        token(header={"alg": "HS256"}),
        "in a way that is not taken",
    ),
    "one of an unknown key": (token(header={"kid": "x"}), "a key that is not known"),
    "one that is too long": ("a." * 10_000 + "b", "no token of a pod"),
    "one that is no JSON": ("YQ.YQ.YQ", "no token of a pod"),
}


@pytest.mark.parametrize("sentence", REFUSED)
async def test_no_other_is_taken(sentence: str) -> None:
    given, words = REFUSED[sentence]
    with pytest.raises(BadToken, match=words):
        await tokens().check(given)


async def test_unknown_keys_do_not_make_us_ask_again_and_again() -> None:
    published = Published()
    checked = tokens(published)
    for _ in range(20):
        with pytest.raises(BadToken):
            await checked.check(token(header={"kid": "x"}))
    assert published.asked == 1
