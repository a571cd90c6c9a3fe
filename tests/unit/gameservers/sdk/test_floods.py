"""A pod with a good token that says other words all the time, or listens many times over."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from edgewise.api.games import Allocation, Server
from edgewise.gameservers import names
from edgewise.gameservers.sdk import handlers
from edgewise.gameservers.sdk.handlers import SdkHandlers
from edgewise.gameservers.sdk.tokens import PodIdentity, PodTokens
from edgewise.gameservers.sdk.words import Said
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Pod
from edgewise.runtime.caching.cache import Cache
from tests.unit.gameservers.making import server

HEADERS = {"Authorization": "Bearer t"}


class Writes:
    """Counts what is written."""

    def __init__(self) -> None:
        self.count = 0

    async def patch(self, *_: Any, **__: Any) -> None:
        self.count += 1


class Tokens:
    def __init__(self, pod: str) -> None:
        self._pod = pod

    async def check(self, _: str) -> PodIdentity:
        return PodIdentity("play", self._pod, "p1")


def endpoint(writes: Writes) -> web.Application:
    one = server()
    pod = Pod.named(names.pod_of(one.metadata.name), "play", spec={})
    pod.metadata.uid, pod.metadata.resource_version = "p1", "7"
    pod.metadata.labels = {names.PROTECTED: one.metadata.name}
    pod.metadata.owner_references = [one.owner_reference()]
    servers: Cache[Server] = Cache(Server)
    servers.replace([one], "7")
    pods: Cache[Pod] = Cache(Pod)
    pods.replace([pod], "7")
    allocations: Cache[Allocation] = Cache(Allocation)
    allocations.replace([], "7")
    made = SdkHandlers(
        cast(Client, writes),
        cast(PodTokens, Tokens(pod.metadata.name)),
        servers=servers,
        pods=pods,
        allocations=allocations,
    )
    app = web.Application()
    for each in made.handlers():
        app.router.add_route(each.method, each.path, each.answer)
    return app


async def test_words_that_change_all_the_time_are_written_so_often_and_no_more() -> None:
    writes = Writes()
    async with TestClient(TestServer(endpoint(writes))) as client:
        last = 0
        for number in range(handlers.WRITES[1] + 10):
            body = {"players": number}
            answer = await client.put(f"{handlers.PATH}/said", json=body, headers=HEADERS)
            last = answer.status
        assert last == 429
        assert answer.headers["Retry-After"] == "1"
        assert "too often" in (await answer.json())["error"]
    # A slow machine is given what a second or two allow.
    assert writes.count <= handlers.WRITES[1] + 9


async def test_a_server_that_listens_many_times_over_is_refused() -> None:
    async with TestClient(TestServer(endpoint(Writes()))) as client:
        path = f"{handlers.PATH}/server"
        tag = (await client.get(path, headers=HEADERS)).headers["ETag"]

        async def listen() -> int:
            return (await client.get(f"{path}?since={tag}", headers=HEADERS)).status

        calls = [asyncio.create_task(listen()) for _ in range(handlers.MOST_LISTENING + 1)]
        done, held = await asyncio.wait(calls, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result() for each in done] == [429]
        assert len(held) == handlers.MOST_LISTENING
        for each in held:
            each.cancel()


@pytest.mark.parametrize("labels", [{"a\n": "b"}, {"a": "b\n"}])
def test_a_line_feed_at_the_end_is_part_of_no_label(labels: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode({"labels": labels}), type=Said)
