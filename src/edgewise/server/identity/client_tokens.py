"""Tokens for clients: short-lived, and good for one client of one session only.

They are signed with a key that all replicas share, so any replica can check any token
without asking anybody. The key lives in a Secret together with its predecessors: a new
current key can be put beside an old one, which is removed once its tokens have run out.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import jwt
import msgspec

from edgewise.api.secrets import SECRET_LABEL
from edgewise.errors import ReadableError
from edgewise.kube.kinds.core import Secret
from edgewise.kube.objects import ObjectMeta
from edgewise.server.identity.principal import Principal, Role, Unauthenticated

ISSUER = "edgewise"
AUDIENCE = "edgewise/client"
ALGORITHM = "HS256"
LIFETIME_SECONDS = 900
SECRET_NAME = "edgewise-server-keys"  # noqa: S105 - a name
LABEL_VALUE = "signing-keys"
CURRENT = "current"
SMALLEST_KEY = 32


class UnusableKeys(ReadableError):
    """The Secret with the signing keys cannot be used."""


class SigningKeys(msgspec.Struct, frozen=True):
    current: str
    keys: Mapping[str, bytes]

    def __repr__(self) -> str:
        return f"SigningKeys(current={self.current!r}, {len(self.keys)} keys)"


def new_keys_secret(namespace: str) -> Secret:
    """A Secret with one fresh key; whoever creates it first decides for all replicas."""
    id = secrets.token_hex(4)
    secret = Secret.named(
        SECRET_NAME, namespace, data={CURRENT: id.encode(), id: secrets.token_bytes(SMALLEST_KEY)}
    )
    secret.metadata = ObjectMeta(
        name=SECRET_NAME, namespace=namespace, labels={SECRET_LABEL: LABEL_VALUE}
    )
    return secret


def keys_in(secret: Secret) -> SigningKeys:
    current = secret.data.get(CURRENT, b"").decode(errors="replace").strip()
    keys = {name: value for name, value in secret.data.items() if name != CURRENT}
    weak = sorted(name for name, value in keys.items() if len(value) < SMALLEST_KEY)
    if current not in keys or weak:
        problem = f"the key {weak[0]!r} is too short" if weak else f"no key named {current!r}"
        raise UnusableKeys(
            f"the Secret {secret.key} cannot sign client tokens ({problem}): delete it to have "
            "a new one made"
        )
    return SigningKeys(current, keys)


class ClientToken(msgspec.Struct, frozen=True):
    token: str
    expires: float


def issue(
    keys: SigningKeys,
    *,
    session: str,
    session_uid: str,
    client: str,
    now: float,
    removal: int = 0,
    lifetime: float = LIFETIME_SECONDS,
) -> ClientToken:
    expires = int(now + lifetime)
    token = jwt.encode(
        {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": client,
            "session": session,
            "uid": session_uid,
            "removal": removal,
            "iat": int(now),
            "exp": expires,
        },
        keys.keys[keys.current],
        algorithm=ALGORITHM,
        headers={"kid": keys.current},
    )
    return ClientToken(token, float(expires))


def check(token: str, keys: SigningKeys, now: float) -> Principal:
    """The client that a token stands for."""
    try:
        id = jwt.get_unverified_header(token).get("kid", "")
        key = keys.keys.get(id)
        if key is None:
            raise Unauthenticated("the client token was signed with a key that is not in use")
        claims = jwt.decode(
            token,
            key,
            algorithms=[ALGORITHM],
            audience=AUDIENCE,
            issuer=ISSUER,
            # Checked below: the library would read the clock behind our back.
            options={
                "require": ["exp", "iat", "sub"],
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except jwt.PyJWTError as error:
        raise Unauthenticated("the client token does not hold") from error
    expires, session, uid = claims["exp"], claims.get("session"), claims.get("uid")
    if not isinstance(expires, int) or expires <= now:
        raise Unauthenticated("the client token has expired: ask the application for a new one")
    if not (isinstance(session, str) and isinstance(uid, str) and session and uid):
        raise Unauthenticated("the client token names no session")
    removal = claims.get("removal", 0)
    if not isinstance(removal, int):
        raise Unauthenticated("the client token does not hold")
    return Principal(
        role=Role.CLIENT,
        session=session,
        session_uid=uid,
        client=claims["sub"],
        removal=removal,
        expires=float(expires),
    )
