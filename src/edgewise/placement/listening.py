"""Asks the program for reports what was reported: one question that waits for news.

The leader asks, so nothing has to know which replica leads, and nothing is written to the API
server. What comes back is bounded by the pods and nodes of the placements that changed.
"""

from __future__ import annotations

import asyncio
import logging

import aiohttp
import msgspec

from edgewise.errors import ReadableError
from edgewise.kube.client import Client
from edgewise.kube.errors import UNREADABLE_JSON, KubeError
from edgewise.placement.board import VoteBoard
from edgewise.placement.reports import Summary
from edgewise.placement.reports_secret import (
    NAME,
    ReportsAccess,
    UnusableReportsSecret,
    read_access,
)
from edgewise.workloads.wording import CONDITION, shorten

PATH = "/placement/votes"
WAIT_SECONDS = 5.0
# Between two answers, so that a flood of reports costs a bounded number of reconciles.
PAUSE_SECONDS = 0.1
RETRY_SECONDS = 1.0
LARGEST = 8 << 20

_log = logging.getLogger(__name__)
_summaries = msgspec.json.Decoder(Summary)


class Unheard(ReadableError):
    """Why nothing is heard, for the status of whoever waits for reports."""


class Listening:
    def __init__(
        self, client: Client, http: aiohttp.ClientSession, namespace: str, board: VoteBoard
    ) -> None:
        self._client = client
        self._http = http
        self._namespace = namespace
        self._board = board

    async def run(self) -> None:
        while True:
            try:
                await self._listen(await self._access())
            except Unheard as error:
                if str(error) != self._board.trouble:
                    _log.warning("%s", error)
                self._board.fail(str(error))
            await asyncio.sleep(RETRY_SECONDS)

    async def _access(self) -> ReportsAccess:
        try:
            access = await read_access(self._client, self._namespace)
        except (KubeError, UnusableReportsSecret) as error:
            raise Unheard(f"the address of the program for reports is not known: {error}") from None
        if access is None or not access.url:
            raise Unheard(
                f"no program for reports is there: the Secret {self._namespace}/{NAME} names none "
                "(run `edgewise reports`, or set reports.enabled in the chart)"
            )
        return access

    async def _listen(self, access: ReportsAccess) -> None:
        """Until it fails: then the address is read again."""
        boot, after = "", 0
        while True:
            summary = await self._ask(access, after if boot else 0)
            if boot and summary.boot != boot:
                # It was started again: nothing of before counts.
                boot, after = summary.boot, 0
            else:
                boot, after = summary.boot, summary.version
                self._board.take(summary)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _ask(self, access: ReportsAccess, after: int) -> Summary:
        try:
            async with self._http.get(
                access.url.rstrip("/") + PATH,
                params={"after": str(after), "wait": str(WAIT_SECONDS)},
                headers={"Authorization": f"Bearer {access.token}"},
                timeout=aiohttp.ClientTimeout(total=WAIT_SECONDS + 5, sock_connect=3),
                allow_redirects=False,
            ) as answer:
                if answer.status != 200:
                    raise Unheard(await _refusal(answer))
                content = await _whole(answer)
            return _summaries.decode(content)
        except (aiohttp.ClientError, OSError, TimeoutError):
            raise Unheard("the program for reports does not answer") from None
        except UNREADABLE_JSON:
            raise Unheard("the program for reports answers something unreadable") from None


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in answer.content.iter_chunked(64 << 10):
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise Unheard("the program for reports answers with more than is read")
    return b"".join(parts)


async def _refusal(answer: aiohttp.ClientResponse) -> str:
    """It says itself why it cannot tell, such as that its broker is away."""
    if answer.status == 503:
        said = (await answer.content.read(500)).decode(errors="replace").strip()
        return f"the program for reports hears nothing: {shorten(said, CONDITION)}"
    return f"the program for reports answers with {answer.status}"
