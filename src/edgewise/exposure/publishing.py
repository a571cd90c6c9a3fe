"""Tells the gateways of new routes, and hears when they serve them.

The gateways find every route by their own watch too; this only makes it fast, and certain:
an endpoint is called ready when every gateway to which clients may be led has acknowledged it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import aiohttp
import msgspec

from edgewise.exposure.route import Owner, Route
from edgewise.kube.errors import UNREADABLE_JSON
from edgewise.kube.reading import read_whole

PATIENCE = 2.0
# As much as a push may have: an answer names the routes of it and nothing else.
LARGEST_ANSWER = 4 * 2**20
# Clients may be led to a gateway for so long after its agent fell silent: the cluster needs
# a few seconds to notice it. After that it is told of routes, but nobody waits for it: when
# it comes back it catches up by its watch before it is called ready.
EXCUSED_AFTER = 10.0

_log = logging.getLogger(__name__)


class Ack(msgspec.Struct):
    """What the gateways said, by the ids of routes."""

    acked: set[str] = msgspec.field(default_factory=set)
    rejected: dict[str, str] = {}
    complaint: str = ""  # why nobody could say anything


class RoutePublisher(Protocol):
    async def publish(self, owner: Owner, routes: Sequence[Route]) -> Ack: ...


class TrustingPublisher:
    """Without a gateway, or with one that is told by its watch alone."""

    async def publish(self, owner: Owner, routes: Sequence[Route]) -> Ack:  # noqa: ARG002
        return Ack(acked={route.id for route in routes})


class Gateway(msgspec.Struct, frozen=True, order=True):
    """The control port of a gateway."""

    url: str
    serving: bool = True  # clients may be led to it


class _Answer(msgspec.Struct):
    acked: list[str] = []
    rejected: dict[str, str] = {}


class GatewayPublisher:
    """Pushes to the control port of every gateway at once."""

    def __init__(
        self,
        gateways: Callable[[], Iterable[Gateway]],
        token: Callable[[], str],
        http: aiohttp.ClientSession,
        *,
        patience: float = PATIENCE,
        excused_after: float = EXCUSED_AFTER,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`gateways` answers those that are there now."""
        self._gateways = gateways
        self._token = token
        self._http = http
        self._patience = patience
        self._excused_after = excused_after
        self._monotonic = monotonic
        self._silent_since: dict[str, float] = {}
        self._unawaited: set[asyncio.Task[_Answer | str]] = set()

    async def publish(self, owner: Owner, routes: Sequence[Route]) -> Ack:
        gateways = sorted(set(self._gateways()))
        if not gateways:
            return Ack(complaint="no gateway is known")
        self._forget_all_but({gateway.url for gateway in gateways})
        body = msgspec.json.encode({"domain": owner.domain, "owner": owner.name, "routes": routes})
        counted = [each.url for each in gateways if each.serving and not self._excused(each.url)]
        for gateway in gateways:
            if counted and gateway.url not in counted:
                self._tell(gateway.url, body)
        # If none counts, one that is ready just now may still say so.
        asked = counted or [gateway.url for gateway in gateways]
        answers = await asyncio.gather(*(self._push(url, body) for url in asked))
        if not counted:
            answers = [each for each in answers if isinstance(each, _Answer)] or answers
        return _agreed(answers, {route.id for route in routes})

    def _tell(self, url: str, body: bytes) -> None:
        """Push, without waiting for what comes of it."""
        task = asyncio.create_task(self._push(url, body))
        self._unawaited.add(task)
        task.add_done_callback(self._unawaited.discard)

    def _forget_all_but(self, urls: set[str]) -> None:
        for url in self._silent_since.keys() - urls:
            del self._silent_since[url]

    def _excused(self, url: str) -> bool:
        since = self._silent_since.get(url)
        return since is not None and self._monotonic() - since >= self._excused_after

    async def _push(self, url: str, body: bytes) -> _Answer | str:
        try:
            headers = {
                "Authorization": f"Bearer {self._token()}",
                "Content-Type": "application/json",
            }
            async with self._http.post(
                f"{url.rstrip('/')}/v1/routes",
                data=body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=self._patience),
                allow_redirects=False,  # the token is for this gateway alone
            ) as answer:
                content = await read_whole(answer, gzip=False, largest=LARGEST_ANSWER)
                if answer.status != 200:
                    why = "is not ready" if answer.status == 503 else f"answered {answer.status}"
                    return self._silent(url, why)
                decoded = msgspec.json.decode(content, type=_Answer)
        except (aiohttp.ClientError, TimeoutError, OSError, *UNREADABLE_JSON) as error:
            return self._silent(url, str(error) or type(error).__name__)
        self._silent_since.pop(url, None)
        return decoded

    def _silent(self, url: str, why: str) -> str:
        """It has said nothing about the routes."""
        if url not in self._silent_since:
            self._silent_since[url] = self._monotonic()
            _log.warning("the gateway at %s did not take routes: %s", url, why)
        return f"the gateway at {url}: {why}"


def _agreed(answers: Sequence[_Answer | str], asked: set[str]) -> Ack:
    """What all of them serve: clients may be led to any."""
    ack = Ack(acked=set(asked))
    for answer in answers:
        if isinstance(answer, _Answer):
            ack.acked &= set(answer.acked)
            ack.rejected.update(answer.rejected)
        else:
            ack.acked.clear()
            ack.complaint = answer
    return ack


def token_in(file: Path) -> Callable[[], str]:
    """Reads the token anew each time it was changed, as Kubernetes does with mounted Secrets."""
    seen: tuple[float, str] = (-1.0, "")

    def token() -> str:
        nonlocal seen
        changed = file.stat().st_mtime
        if changed != seen[0]:
            seen = (changed, file.read_text(encoding="utf-8").strip())
        return seen[1]

    return token
