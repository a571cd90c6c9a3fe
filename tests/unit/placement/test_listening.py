"""How the operator hears what was reported, from a program that answers anything at all."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Secret
from edgewise.placement import listening
from edgewise.placement.board import VoteBoard
from edgewise.placement.listening import PATH, Listening
from edgewise.testing.eventually import eventually

Answer = Callable[[web.Request], Awaitable[web.Response]]
NEWS = b'{"boot":"%s","version":%d,"placements":[]}'


class Secrets:
    """An API server that knows one Secret."""

    def __init__(self, url: str, token: bytes) -> None:
        self._data = {"key": b"k" * 32, "token": token, "url": url.encode(), "broker": b""}

    async def get(self, kind: type[Secret], name: str, namespace: str) -> Secret:
        made = kind.named(name, namespace)
        made.data = self._data
        return made


@contextlib.asynccontextmanager
async def hearing(answer: Answer, token: bytes = b"t" * 32) -> AsyncIterator[VoteBoard]:
    app = web.Application()
    app.router.add_get(PATH, answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        board = VoteBoard()
        client = cast("Client", Secrets(str(server.make_url("")), token))
        running = asyncio.create_task(Listening(client, http, "system", board).run())
        try:
            yield board
            assert not running.done(), running
        finally:
            running.cancel()
            await asyncio.wait({running})


def always(body: bytes, status: int = 200) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body)

    return answer


# What the program answers, and what the placements say of it.
TROUBLES: dict[str, tuple[Answer, str]] = {
    "no JSON": (always(b"<html>"), "answers something unreadable"),
    "broken text": (always(b'{"boot":"\xff"'), "answers something unreadable"),
    "nested very deep": (
        always(b'{"boot":"b","version":1,"x":' + b"[" * 200_000),
        "answers something unreadable",
    ),
    "another type": (always(b"[]"), "answers something unreadable"),
    "more than is read": (always(b" " * (9 << 20)), "answers with more than is read"),
    "another status": (always(b"", 500), "answers with 500"),
    "that its broker is away": (always(b"no broker", 503), "hears nothing: no broker"),
}


@pytest.mark.parametrize("sentence", TROUBLES)
async def test_what_cannot_be_heard_is_said_and_asked_again(sentence: str) -> None:
    answer, says = TROUBLES[sentence]
    async with hearing(answer) as board:
        await eventually(lambda: says in board.trouble, within=10)


async def test_a_token_that_no_header_can_hold_is_said_and_read_again() -> None:
    """Such as one that was written into the Secret by hand, with its line feed."""
    async with hearing(always(NEWS % (b"b", 1)), token=b"t" * 32 + b"\n") as board:
        await eventually(lambda: "`token`" in board.trouble, within=10)


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_flood_of_news_is_asked_for_a_few_times_a_second(restarts: bool) -> None:
    """Whatever the program answers, and however soon: other domains keep their pace."""
    asked: list[float] = []

    async def answer(_: web.Request) -> web.Response:
        asked.append(time.monotonic())
        boot = b"%d" % len(asked) if restarts else b"b"
        return web.Response(body=NEWS % (boot, len(asked)))

    async with hearing(answer):
        await eventually(lambda: len(asked) >= 6, within=10)
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert min(gaps) >= 0.9 * listening.PAUSE_SECONDS
