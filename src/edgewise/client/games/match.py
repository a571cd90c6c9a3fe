"""A match and its server, kept for as long as the block runs.

`async with edgewise.match("chess", "m1", lease=60) as match:` gets a server for the match, in the
line if it has to, sends heartbeats, and releases it at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

import msgspec

from edgewise.client.errors import ApiError, EdgewiseError, NotFound, NotReady, Unreachable
from edgewise.client.games.views import Allocation
from edgewise.client.transport import ANSWER_SECONDS, Transport, part

# One call may wait this long at the server; then it is asked again.
WAIT_STEP_SECONDS = 20.0
WAIT_SECONDS = 60
LEASE_SECONDS = 60
RELEASE_SECONDS = 10.0
PATIENCE_SECONDS = 10.0

_log = logging.getLogger(__name__)


class MatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which server a match would like. See the API for the fields."""

    players: list[str] = []
    selectors: list[dict[str, str]] = []
    metadata: dict[str, str] = {}
    wait: int = WAIT_SECONDS  # in the line, if no server is free
    lease: int = 0  # seconds; 0: the server is kept until it is released


def path_of(game: str, match: str = "", tail: str = "", uid: str = "") -> str:
    path = f"/v1/games/{part(game)}/allocations"
    if match:
        path += f"/{part(match)}{tail}"
    return f"{path}?{urlencode({'uid': uid})}" if uid else path


async def allocate(
    transport: Transport, game: str, match: str, wish: MatchRequest, patience: float
) -> Allocation:
    """A server for the match: repeated until the server has answered, at whichever replica.

    Raises `Busy` if none is free, and `NotReady` if none became free in time.
    """
    body = {"match": match, **msgspec.to_builtins(wish)}
    found = await transport.call("POST", path_of(game), Allocation, body=body, patience=patience)
    deadline = asyncio.get_running_loop().time() + wish.wait
    try:
        while found.state == "queued":
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                raise NotReady(f"no server of {game} became free for {match} in {wish.wait} s")
            found = await _ask_again(transport, game, match, min(left, WAIT_STEP_SECONDS), patience)
    except BaseException:
        # Who does not wait any more must not be given a server.
        with contextlib.suppress(EdgewiseError, TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                await release(transport, game, match, found.uid)
        raise
    return found


async def _ask_again(
    transport: Transport, game: str, match: str, seconds: float, patience: float
) -> Allocation:
    try:
        return await transport.call(
            "GET",
            path_of(game, match),
            Allocation,
            query={"wait": round(seconds, 3)},
            seconds=seconds + ANSWER_SECONDS,
            patience=patience,
        )
    except NotFound:
        raise NotReady(f"no server of {game} became free for {match} in time") from None


async def release(transport: Transport, game: str, match: str, uid: str = "") -> None:
    await transport.call("DELETE", path_of(game, match, uid=uid), type(None), patience=2.0)


class Match:
    """Use it inside `async with`."""

    def __init__(
        self, transport: Transport, game: str, match: str, wish: MatchRequest, *, owns: bool
    ) -> None:
        self._transport = transport
        self._owns = owns
        self._game = game
        self._match = match
        self._wish = wish
        self._stack = contextlib.AsyncExitStack()
        self._lost = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None
        self._allocation: Allocation | None = None

    @property
    def allocation(self) -> Allocation:
        if self._allocation is None:
            raise RuntimeError("use it inside `async with`")
        return self._allocation

    @property
    def server(self) -> str:
        return self.allocation.server or ""

    def endpoint(self, port: str = "") -> tuple[str, int]:
        return self.allocation.endpoint(port)

    @property
    def lost(self) -> bool:
        """Whether the server was taken back: the lease had ended before a heartbeat came."""
        return self._lost.is_set()

    async def wait_lost(self) -> None:
        await self._lost.wait()

    async def __aenter__(self) -> Self:
        if self._owns:
            await self._stack.enter_async_context(self._transport)
        try:
            self._allocation = await allocate(
                self._transport, self._game, self._match, self._wish, PATIENCE_SECONDS
            )
        except BaseException:
            await self._stack.aclose()
            raise
        if self._wish.lease:
            self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait({self._beating})
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await release(self._transport, self._game, self._match, self.allocation.uid)
        except (EdgewiseError, TimeoutError) as trouble:
            _log.warning("%s of %s is not released: %s", self._match, self._game, trouble)
        finally:
            await self._stack.aclose()

    async def _beat(self) -> None:
        path = path_of(self._game, self._match, "/heartbeat", self.allocation.uid)
        while True:
            await asyncio.sleep(self._wish.lease / 3)
            try:
                await self._transport.call("POST", path, Allocation)
            except Unreachable as error:
                _log.warning("no heartbeat for %s: %s", self._match, error)
            except ApiError as error:
                if error.status == 410:
                    self._lost.set()
                    return
                _log.warning("no heartbeat for %s: %s", self._match, error)
