"""Making pods clean: by their own word, or by a restart."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from edgewise.api.sessions import Reset
from edgewise.kube.errors import Unreachable
from edgewise.kube.objects import Key
from edgewise.sessions.orders import ResetPod
from edgewise.sessions.resetting import TERMINATE, PodCleaner, Resets
from edgewise.workloads.pods_seen import PodSeen

POD = PodSeen(name="p0", uid="u0", revision="r", ordinal=0, ip="127.0.0.1", ready=True)
KEY = Key("n", "s")


class Execs:
    """A client that remembers what it was asked to run."""

    def __init__(self, error: Exception | None = None) -> None:
        self.ran: list[Any] = []
        self._error = error

    async def exec(self, name: str, namespace: str, command: Any, *, container: str) -> None:
        self.ran.append((name, namespace, command, container))
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize(
    ("status", "clean"), [(200, True), (204, True), (404, False), (500, False)]
)
async def test_a_pod_is_asked_at_its_own_address(status: int, clean: bool) -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(f"{request.method} {request.path}")
        return web.Response(status=status)

    app = web.Application()
    app.router.add_route("*", "/reset", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        async with aiohttp.ClientSession() as http:
            cleaner = PodCleaner(Execs(), http)  # type: ignore[arg-type]
            order = ResetPod(POD, Reset(http_path="/reset"), port, "first")
            assert await cleaner.clean("n", order) is clean
    finally:
        await runner.cleanup()
    assert asked == ["POST /reset"]


async def test_a_pod_sends_the_operator_nowhere_else() -> None:
    """A pod's redirect would lead the operator's POST to any address that it can reach."""
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(f"{request.method} {request.path} {request.headers.get('Cookie', '')}".strip())
        if request.path == "/reset":
            answer = web.Response(status=307, headers={"Location": "/elsewhere"})
            answer.set_cookie("from", "a-pod")
            return answer
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        async with aiohttp.ClientSession() as http:
            cleaner = PodCleaner(Execs(), http)  # type: ignore[arg-type]
            order = ResetPod(POD, Reset(http_path="/reset"), port, "first")
            assert await cleaner.clean("n", order) is False
    finally:
        await runner.cleanup()
    assert asked == ["POST /reset"]


async def test_a_pod_that_does_not_answer_is_not_clean() -> None:
    async with aiohttp.ClientSession() as http:
        cleaner = PodCleaner(Execs(), http)  # type: ignore[arg-type]
        assert await cleaner.clean("n", ResetPod(POD, Reset(http_path="/x"), 9, "first")) is False


@pytest.mark.parametrize("error", [None, Unreachable("cut off")])
async def test_a_container_is_told_to_end(error: Exception | None) -> None:
    """Whether it worked is seen at the pod: the command may end with its container."""
    client = Execs(error)
    async with aiohttp.ClientSession() as http:
        cleaner = PodCleaner(client, http)  # type: ignore[arg-type]
        order = ResetPod(POD, Reset(restart_container="main"), 80, "first")
        assert await cleaner.clean("n", order) is None
    assert client.ran == [("p0", "n", TERMINATE, "main")]


class Cleaner:
    def __init__(self, result: bool | None = True) -> None:
        self.result = result
        self.count = 0
        self.go_on = asyncio.Event()

    async def clean(self, namespace: str, order: ResetPod) -> bool | None:
        self.count += 1
        await self.go_on.wait()
        return self.result


ORDER = ResetPod(POD, Reset(http_path="/reset"), 80, "first")
NEXT = msgspec.structs.replace(ORDER, attempt="second")


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_pod_is_reset_once_at_a_time_and_its_session_is_woken() -> None:
    woken: list[Key] = []
    cleaner = Cleaner()
    resets = Resets(cleaner, woken.append)
    resets.start(KEY, ORDER)
    resets.start(KEY, ORDER)
    await settle()
    assert (cleaner.count, resets.result("u0", "first"), woken) == (1, None, [])
    cleaner.go_on.set()
    await settle()
    assert (resets.result("u0", "first"), woken) == (True, [KEY])
    resets.start(KEY, ORDER)
    await settle()
    assert cleaner.count == 1, "the result has not been taken note of"
    resets.forget("u0")
    resets.start(KEY, ORDER)
    await settle()
    assert cleaner.count == 2
    await resets.stop()


async def test_a_container_is_not_told_to_end_twice() -> None:
    cleaner = Cleaner(None)
    cleaner.go_on.set()
    resets = Resets(cleaner, lambda _: None)
    for _ in range(3):
        resets.start(KEY, ORDER)
        await settle()
    assert cleaner.count == 1
    resets.start(KEY, NEXT)
    await settle()
    assert cleaner.count == 2, "but whoever has the pod next makes it dirty again"


async def test_that_a_pod_was_clean_once_says_nothing_of_the_next_time() -> None:
    cleaner = Cleaner()
    resets = Resets(cleaner, lambda _: None)
    resets.start(KEY, ORDER)
    cleaner.go_on.set()
    await settle()
    assert resets.result("u0", "first") is True
    assert resets.result("u0", "second") is None
    resets.start(KEY, NEXT)
    await settle()
    assert (cleaner.count, resets.result("u0", "second")) == (2, True)


async def test_what_comes_late_of_an_old_attempt_is_not_believed() -> None:
    slow, quick = Cleaner(True), Cleaner(False)
    turns = iter((slow, quick))

    class InTurn:
        async def clean(self, namespace: str, order: ResetPod) -> bool | None:
            return await next(turns).clean(namespace, order)

    resets = Resets(InTurn(), lambda _: None)
    resets.start(KEY, ORDER)
    await settle()
    resets.start(KEY, NEXT)
    quick.go_on.set()
    await settle()
    slow.go_on.set()
    await settle()
    assert resets.result("u0", "second") is False


async def test_the_end_does_not_wait_for_pods() -> None:
    resets = Resets(Cleaner(), lambda _: None)
    resets.start(KEY, ORDER)
    await settle()
    await asyncio.wait_for(resets.stop(), 1)
