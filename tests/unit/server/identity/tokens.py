"""What the identity tests share: a clock, credentials held in memory, an issuer with keys."""

from __future__ import annotations

import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from edgewise.server.identity.api_tokens import ApiToken
from edgewise.server.identity.client_tokens import SigningKeys

NOW = 1_800_000_000.0
ISSUER = "https://login.example.org"
AUDIENCE = "https://edge.example.org"


class Clock:
    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Held:
    """Credentials in memory."""

    def __init__(self, *tokens: ApiToken, keys: SigningKeys | None = None) -> None:
        self.tokens = {token.id: token for token in tokens}
        self.keys = keys

    def api_token(self, id: str) -> ApiToken | None:
        return self.tokens.get(id)

    def signing_keys(self) -> SigningKeys | None:
        return self.keys


def private_key(kind: str) -> Any:
    if kind == "RS256":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return ec.generate_private_key(ec.SECP256R1()) if kind == "ES256" else ed25519_key()


def ed25519_key() -> Any:
    return ed25519.Ed25519PrivateKey.generate()


def public_jwk(key: Any, id: str) -> dict[str, Any]:
    algorithms = jwt.algorithms
    if isinstance(key, rsa.RSAPrivateKey):
        text = algorithms.RSAAlgorithm.to_jwk(key.public_key())
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        text = algorithms.ECAlgorithm.to_jwk(key.public_key())
    else:
        text = algorithms.OKPAlgorithm.to_jwk(key.public_key())
    return {**json.loads(text), "kid": id, "use": "sig"}


class Issuer:
    """An OIDC issuer whose pages are answered from memory."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"one": private_key("RS256")}
        self.fetches: list[str] = []
        self.down = False
        self.name = ISSUER

    async def fetch(self, url: str) -> bytes:
        self.fetches.append(url)
        if self.down:
            raise OSError("connection refused")
        if url.endswith("/.well-known/openid-configuration"):
            return json.dumps({"issuer": self.name, "jwks_uri": f"{ISSUER}/keys"}).encode()
        return json.dumps({"keys": [public_jwk(k, id) for id, k in self.keys.items()]}).encode()

    def token(self, key: str = "one", algorithm: str = "RS256", **claims: Any) -> str:
        content = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "arena",
            "exp": int(NOW) + 600,
            "edgewise_role": "app",
            **claims,
        }
        content = {name: value for name, value in content.items() if value is not None}
        return jwt.encode(content, self.keys[key], algorithm=algorithm, headers={"kid": key})
