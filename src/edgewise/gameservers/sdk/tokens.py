"""Tokens of pods, checked by the operator itself.

A namespace that is being deleted loses its ServiceAccounts first; the API server's own review
would refuse their tokens from then on, while the games still have something to say.
"""

from __future__ import annotations

import binascii
import time
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from edgewise.errors import ReadableError
from edgewise.kube.client import Client

LARGEST_TOKEN = 16_384
REFRESH_SECONDS = 300.0
SHORTEST_PAUSE_SECONDS = 5.0
# Clocks of two machines may differ by so much.
SKEW = 30.0
KEYS_PATH = "/openid/v1/jwks"

_HASHES: dict[str, hashes.HashAlgorithm] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}
_CURVES: dict[str, tuple[ec.EllipticCurve, str]] = {
    "P-256": (ec.SECP256R1(), "ES256"),
    "P-384": (ec.SECP384R1(), "ES384"),
    "P-521": (ec.SECP521R1(), "ES512"),
}

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


class BadToken(ReadableError):
    """Why a token is not taken."""


async def published_keys(client: Client) -> bytes:
    """As the API server publishes them for everybody who checks tokens."""
    accept = {"Accept": "application/jwk-set+json"}
    return await client.request("GET", KEYS_PATH, headers=accept, timeout=5.0, largest=1 << 20)


class PodIdentity(msgspec.Struct, frozen=True):
    """Which pod speaks."""

    namespace: str
    pod: str
    uid: str


class Jwk(msgspec.Struct):
    kty: str
    kid: str = ""
    n: str = ""
    e: str = ""
    crv: str = ""
    x: str = ""
    y: str = ""


class _Jwks(msgspec.Struct):
    keys: list[Jwk] = []


class _Header(msgspec.Struct):
    alg: str
    kid: str = ""


class _Named(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Kubernetes(msgspec.Struct):
    namespace: str = ""
    pod: _Named | None = None


class _Claims(msgspec.Struct):
    aud: str | list[str] = ""
    exp: float = 0.0
    nbf: float = 0.0
    kubernetes: _Kubernetes | None = msgspec.field(name="kubernetes.io", default=None)


class PodTokens:
    """Keys as the API server publishes them, fetched when needed and again now and then."""

    def __init__(
        self,
        audience: str,
        fetch: Callable[[], Awaitable[bytes]],
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._audience = audience
        self._fetch = fetch
        self._clock = clock
        self._monotonic = monotonic
        self._keys: dict[str, PublicKey] = {}
        self._fetched = -SHORTEST_PAUSE_SECONDS

    async def check(self, token: str) -> PodIdentity:
        if len(token) > LARGEST_TOKEN or token.count(".") != 2:
            raise BadToken("this is no token of a pod")
        signed, _, signature = token.rpartition(".")
        head, _, body = signed.partition(".")
        header = _part(head, _Header)
        key = await self._key(header.kid)
        verify(key, header.alg, signed.encode(), _decoded(signature))
        return self._identity(_part(body, _Claims))

    def _identity(self, claims: _Claims) -> PodIdentity:
        now = self._clock()
        audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
        if self._audience not in audiences:
            raise BadToken("the token is meant for somebody else")
        if claims.exp <= now - SKEW:
            raise BadToken("the token has expired")
        if claims.nbf > now + SKEW:
            raise BadToken("the token is not good yet")
        known = claims.kubernetes
        if known is None or known.pod is None or not (known.namespace and known.pod.uid):
            raise BadToken("the token is not bound to a pod")
        return PodIdentity(known.namespace, known.pod.name, known.pod.uid)

    async def _key(self, kid: str) -> PublicKey:
        waited = self._monotonic() - self._fetched
        stale = waited >= REFRESH_SECONDS
        if stale or (kid not in self._keys and waited >= SHORTEST_PAUSE_SECONDS):
            # Also if it fails: what is sent to us must not make us ask again and again.
            self._fetched = self._monotonic()
            found = read_keys(await self._fetch())
            if found:
                self._keys = found
        if kid not in self._keys:
            raise BadToken("the token was signed with a key that is not known")
        return self._keys[kid]


def read_keys(document: bytes) -> dict[str, PublicKey]:
    found: dict[str, PublicKey] = {}
    for each in msgspec.json.decode(document, type=_Jwks).keys:
        if each.kty == "RSA":
            numbers = rsa.RSAPublicNumbers(_number(each.e), _number(each.n))
            found[each.kid] = numbers.public_key()
        elif each.kty == "EC" and each.crv in _CURVES:
            curve = _CURVES[each.crv][0]
            point = ec.EllipticCurvePublicNumbers(_number(each.x), _number(each.y), curve)
            found[each.kid] = point.public_key()
    return found


def verify(key: PublicKey, algorithm: str, signed: bytes, signature: bytes) -> None:
    """Only what the kind of the key allows: the token has no say in it."""
    digest = _HASHES.get(algorithm[2:])
    try:
        if digest is None:
            raise BadToken("the token is signed in a way that is not taken")
        if isinstance(key, rsa.RSAPublicKey) and algorithm.startswith("RS"):
            key.verify(signature, signed, padding.PKCS1v15(), digest)
        elif isinstance(key, ec.EllipticCurvePublicKey) and algorithm.startswith("ES"):
            half = (key.curve.key_size + 7) // 8
            if len(signature) != 2 * half:
                raise BadToken("the token has no valid signature")
            pair = (int.from_bytes(signature[:half]), int.from_bytes(signature[half:]))
            key.verify(encode_dss_signature(*pair), signed, ec.ECDSA(digest))
        else:
            raise BadToken("the token is signed in a way that is not taken")
    except InvalidSignature as error:
        raise BadToken("the token has no valid signature") from error


def _part(text: str, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(_decoded(text), type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadToken("this is no token of a pod") from error


def _decoded(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (binascii.Error, UnicodeEncodeError) as error:
        raise BadToken("this is no token of a pod") from error


def _number(text: str) -> int:
    return int.from_bytes(_decoded(text))
