"""From an `Authorization` header to a principal, whichever kind of token it holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import jwt

from edgewise.server.identity import api_tokens, client_tokens
from edgewise.server.identity.api_tokens import ApiToken
from edgewise.server.identity.client_tokens import SigningKeys
from edgewise.server.identity.oidc import Oidc
from edgewise.server.identity.principal import IdentityUnavailable, Principal, Unauthenticated

LONGEST_HEADER = 8192


class Credentials(Protocol):
    """What the hub knows, as its caches hold it."""

    def api_token(self, id: str) -> ApiToken | None: ...

    def signing_keys(self) -> SigningKeys | None: ...

    def tenant_enabled(self, token: ApiToken) -> bool: ...


class Authenticator:
    def __init__(
        self,
        credentials: Credentials,
        oidc: Oidc | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._credentials = credentials
        self._oidc = oidc
        self._clock = clock

    async def authenticate(self, header: str | None) -> Principal:
        if not header:
            raise Unauthenticated("send a token: `Authorization: Bearer …`")
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(header) > LONGEST_HEADER:
            raise Unauthenticated("the Authorization header must read `Bearer` and a token")
        if not token.isascii():
            raise Unauthenticated("the token is not well formed")
        try:
            return await self._check(token)
        except RecursionError as error:  # JSON that is nested too deep
            raise Unauthenticated("the token is not well formed") from error

    async def _check(self, token: str) -> Principal:
        if token.startswith(api_tokens.PREFIX):
            kept = self._credentials.api_token(api_tokens.token_id(token))
            principal = api_tokens.check_token(token, kept, self._clock())
            if kept is not None and kept.tenant and not self._credentials.tenant_enabled(kept):
                raise Unauthenticated("the tenant of this API token is disabled, or gone")
            return principal
        if _issuer(token) == client_tokens.ISSUER:
            keys = self._credentials.signing_keys()
            if keys is None:
                raise IdentityUnavailable("client tokens cannot be checked yet: try again soon")
            return client_tokens.check(token, keys, self._clock())
        if self._oidc is None:
            raise Unauthenticated("the token is of no kind that is accepted here")
        return await self._oidc.check(token)


def _issuer(token: str) -> str:
    """Who a JWT says it is from; only used to decide by whose keys to check it."""
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except jwt.PyJWTError as error:
        raise Unauthenticated("the token is not well formed") from error
    return str(claims.get("iss", ""))
