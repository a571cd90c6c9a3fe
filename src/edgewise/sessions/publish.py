"""Tells the gateways of new routes, and hears when they serve them.

The gateways find every route by their own watch too; this only makes it fast, and certain:
an endpoint is called ready when a gateway has acknowledged it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import aiohttp
import msgspec

from edgewise.sessions.routes import Route

# A gateway that does not answer does not hold up joins: it catches up by its watch.
PATIENCE = 2.0

_log = logging.getLogger(__name__)


class Ack(msgspec.Struct):
    """What the gateways said, by the ids of routes."""

    acked: set[str] = msgspec.field(default_factory=set)
    rejected: dict[str, str] = {}
    complaint: str = ""  # why nobody could say anything


class RoutePublisher(Protocol):
    async def publish(self, session_key: str, routes: Sequence[Route]) -> Ack: ...


class TrustingPublisher:
    """Without a gateway, or with one that is told by its watch alone."""

    async def publish(self, session_key: str, routes: Sequence[Route]) -> Ack:  # noqa: ARG002
        return Ack(acked={route.id for route in routes})


class _Answer(msgspec.Struct):
    acked: list[str] = []
    rejected: dict[str, str] = {}


class GatewayPublisher:
    """Pushes to the control port of every gateway at once."""

    def __init__(
        self,
        gateways: Callable[[], Iterable[str]],
        token: Callable[[], str],
        http: aiohttp.ClientSession,
        *,
        patience: float = PATIENCE,
    ) -> None:
        """`gateways` answers the base URLs of those that are there now."""
        self._gateways = gateways
        self._token = token
        self._http = http
        self._patience = patience

    async def publish(self, session_key: str, routes: Sequence[Route]) -> Ack:
        gateways = sorted(set(self._gateways()))
        if not gateways:
            return Ack(complaint="no gateway is known")
        body = msgspec.json.encode({"session": session_key, "routes": routes})
        answers = await asyncio.gather(*(self._push(url, body) for url in gateways))
        ack = Ack()
        for answer in answers:
            if isinstance(answer, _Answer):
                ack.acked.update(answer.acked)
                ack.rejected.update(answer.rejected)
            else:
                ack.complaint = answer
        # One that cannot serve a route makes it useless: clients may be led to any of them.
        ack.acked -= ack.rejected.keys()
        return ack

    async def _push(self, url: str, body: bytes) -> _Answer | str:
        headers = {
            "Authorization": f"Bearer {self._token()}",
            "Content-Type": "application/json",
        }
        try:
            async with self._http.post(
                f"{url.rstrip('/')}/v1/routes",
                data=body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=self._patience),
            ) as answer:
                content = await answer.read()
                if answer.status not in (200, 503):
                    return self._complaint(url, f"answered {answer.status}")
                return msgspec.json.decode(content, type=_Answer)
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
            return self._complaint(url, str(error) or type(error).__name__)

    def _complaint(self, url: str, why: str) -> str:
        _log.warning("the gateway at %s did not take routes: %s", url, why)
        return f"the gateway at {url}: {why}"
