"""Principals from the tokens of an OIDC issuer: applications and people who operate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import jwt
import msgspec

from edgewise.api.owners import OIDC_PREFIX
from edgewise.server.identity.issuer_keys import REFRESH_SECONDS, IssuerKeys
from edgewise.server.identity.principal import Principal, Role, Unauthenticated

LEEWAY_SECONDS = 30.0
LONGEST_NAME = 253
# Checked tokens are remembered, since a signature costs more than all the rest of a request;
# not for longer than keys are, so that a key that was withdrawn takes its tokens with it.
REMEMBERED = 10_000
REMEMBERED_SECONDS = REFRESH_SECONDS

_BY_POWER = (Role.ADMIN, Role.APP, Role.READER)


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True):
    issuer: str
    audience: str
    # The claim that holds a role, or a list with one in it.
    role_claim: str = "edgewise_role"
    # The claim that names the application whose sessions these are.
    application_claim: str = "sub"


class Oidc:
    def __init__(
        self, settings: OidcSettings, keys: IssuerKeys, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self._keys = keys
        self._clock = clock
        self._checked: dict[str, tuple[Principal, float]] = {}

    async def check(self, token: str) -> Principal:
        now = self._clock()
        known = self._checked.get(token)
        if known is not None and now < known[1]:
            return known[0]
        principal = self._principal(await self._claims(token), now)
        if len(self._checked) >= REMEMBERED:
            self._checked.clear()
        until = now + REMEMBERED_SECONDS
        self._checked[token] = principal, min(until, principal.expires or until)
        return principal

    async def _claims(self, token: str) -> dict[str, Any]:
        try:
            id = jwt.get_unverified_header(token).get("kid")
        except jwt.PyJWTError as error:
            raise Unauthenticated("the token is not well formed") from error
        key = await self._keys.find(id)
        if key is None:
            raise Unauthenticated("the token was signed with a key that its issuer does not list")
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                audience=self.settings.audience,
                issuer=self.settings.issuer,
                # Times are checked below, by the injected clock.
                options={
                    "require": ["exp", "iss", "aud"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
        except jwt.InvalidAudienceError as error:
            raise Unauthenticated("the token is meant for somebody else") from error
        except jwt.PyJWTError as error:
            raise Unauthenticated("the token does not hold") from error
        return claims

    def _principal(self, claims: dict[str, Any], now: float) -> Principal:
        expires = _moment(claims, "exp")
        if expires is None or expires + LEEWAY_SECONDS <= now:
            raise Unauthenticated("the token has expired")
        begins = _moment(claims, "nbf")
        if "nbf" in claims and (begins is None or begins - LEEWAY_SECONDS > now):
            raise Unauthenticated("the token is not valid yet")
        application = claims.get(self.settings.application_claim)
        if not _can_name(application):
            raise Unauthenticated(
                f"the token names no application in its claim {self.settings.application_claim!r}"
            )
        return Principal(
            role=self._role(claims.get(self.settings.role_claim)),
            application=f"{OIDC_PREFIX}{application}",
            expires=expires + LEEWAY_SECONDS,
        )

    def _role(self, claimed: Any) -> Role:
        values = claimed if isinstance(claimed, list) else [claimed]
        for role in _BY_POWER:
            if role.value in values:
                return role
        raise Unauthenticated(
            f"the token gives no role here: its claim {self.settings.role_claim!r} must hold "
            f"one of {', '.join(_BY_POWER)}"
        )


def _can_name(application: Any) -> bool:
    """It is written into objects and logs, where a line end would begin another line."""
    return (
        isinstance(application, str)
        and 0 < len(application) <= LONGEST_NAME
        and application.isprintable()
    )


def _moment(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    # A bool is an int in Python, and no time.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        moment = float(value)
    except OverflowError:
        return None
    # JSON as Python reads it knows NaN and Infinity, and neither ever expires.
    return moment if math.isfinite(moment) else None
