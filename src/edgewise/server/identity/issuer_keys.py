"""The public keys of an OIDC issuer, as it publishes and rotates them.

Keys are fetched when they are first needed, again every few minutes, and at once when a
token names a key that is not known yet (a rotation), but never more often than every few
seconds, whatever tokens people send. While the issuer cannot be reached, the keys that
are known stay good for a day.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import jwt
import msgspec

from edgewise.errors import ReadableError
from edgewise.kube.errors import UNREADABLE_JSON
from edgewise.server.identity.principal import IdentityUnavailable

REFRESH_SECONDS = 300.0
# Between two attempts, successful or not.
SHORTEST_PAUSE_SECONDS = 10.0
LONGEST_STALE_SECONDS = 86_400.0
FETCH_SECONDS = 5.0
LARGEST_ANSWER = 1_000_000

# Signatures only the issuer can make. A shared secret (HS256) published as a public key
# would let everybody sign.
ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}

Fetch = Callable[[str], Awaitable[bytes]]
_log = logging.getLogger(__name__)


class IssuerError(ReadableError):
    """The issuer's address or what it publishes cannot be used."""


class IssuerKey(msgspec.Struct, frozen=True):
    key: Any
    algorithms: tuple[str, ...]


class IssuerKeys:
    def __init__(
        self, issuer: str, fetch: Fetch, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        check_url(issuer, "the OIDC issuer")
        self._issuer = issuer
        self._fetch = fetch
        self._monotonic = monotonic
        self._keys: dict[str, IssuerKey] = {}
        self._fetched: float | None = None
        self._tried: float | None = None
        self._refreshing = asyncio.Lock()

    async def find(self, id: str | None) -> IssuerKey | None:
        """The key with this id; without one, the only key there is."""
        if self._age(self._fetched) > REFRESH_SECONDS:
            await self._refresh()
        found = self._known(id)
        if found is None and self._age(self._tried) > SHORTEST_PAUSE_SECONDS:
            await self._refresh()
            found = self._known(id)
        if self._age(self._fetched) > LONGEST_STALE_SECONDS:
            raise IdentityUnavailable(
                f"the keys of the OIDC issuer {self._issuer} cannot be fetched: try again later"
            )
        return found

    def _known(self, id: str | None) -> IssuerKey | None:
        if id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(id)

    def _age(self, moment: float | None) -> float:
        return float("inf") if moment is None else self._monotonic() - moment

    async def _refresh(self) -> None:
        async with self._refreshing:
            if self._age(self._tried) <= SHORTEST_PAUSE_SECONDS:
                return  # somebody was faster, or the issuer needs a rest
            self._tried = self._monotonic()
            try:
                self._keys = await self._published()
                self._fetched = self._monotonic()
            except (IssuerError, OSError, TimeoutError, aiohttp.ClientError) as error:
                _log.warning("cannot fetch the keys of %s: %s", self._issuer, error)

    async def _published(self) -> dict[str, IssuerKey]:
        where = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        described = _json(await self._fetch(where), where)
        # An issuer that calls itself something else is not the one that was configured.
        if described.get("issuer") != self._issuer:
            raise IssuerError(f"{where} describes another issuer: {described.get('issuer')!r}")
        address = str(described.get("jwks_uri", ""))
        check_url(address, "the issuer's jwks_uri")
        listed = _json(await self._fetch(address), address).get("keys")
        if not isinstance(listed, list):
            raise IssuerError(f"{address} lists no keys")
        return {id: key for id, key in (_usable(entry) for entry in listed) if key is not None}


def _usable(entry: Any) -> tuple[str, IssuerKey | None]:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return "", None
    algorithms = ALGORITHMS.get(str(entry.get("kty")), ())
    if named := entry.get("alg"):
        algorithms = tuple(algorithm for algorithm in algorithms if algorithm == named)
    if not algorithms:
        return "", None
    try:
        parsed = jwt.PyJWK(entry, algorithm=algorithms[0])
    except jwt.PyJWTError:
        return "", None  # one broken key must not lock out the users of the others
    return str(entry.get("kid", "")), IssuerKey(parsed.key, algorithms)


def _json(content: bytes, where: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except UNREADABLE_JSON as error:
        raise IssuerError(f"{where} is not a JSON object: {error}") from error


def check_url(url: str, what: str) -> None:
    """Keys that came over plain HTTP could be anybody's; loopback is the exception."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
        parts = urlsplit("")
    local = host in ("localhost", "127.0.0.1", "::1")
    if not host or parts.scheme not in ("https", "http") or (parts.scheme == "http" and not local):
        raise IssuerError(f"{what} must be an https:// address, not {url!r}")


async def fetch_over_http(url: str) -> bytes:
    """GET, bounded in time and size, and without following redirects to somewhere else."""
    timeout = aiohttp.ClientTimeout(total=FETCH_SECONDS)
    async with (
        # Unpacked, a small answer may become a large one.
        aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session,
        session.get(url, allow_redirects=False, headers={"Accept-Encoding": "identity"}) as answer,
    ):
        if answer.status != 200:
            raise IssuerError(f"{url} answered with HTTP {answer.status}")
        content = await answer.content.read(LARGEST_ANSWER + 1)
        while len(content) <= LARGEST_ANSWER and not answer.content.at_eof():
            content += await answer.content.read(LARGEST_ANSWER + 1 - len(content))
        if len(content) > LARGEST_ANSWER:
            raise IssuerError(f"{url} answered with more than {LARGEST_ANSWER} bytes")
        return content
